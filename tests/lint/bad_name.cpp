// Wrong on purpose: functions are named in snake_case. tools/lint fails unless clang-tidy reports it.
int BadlyNamedFunction() { return 1; }
