// Wrong on purpose: functions are named in snake_case. tools/lint fails unless clang-tidy complains of it.
int BadlyNamedFunction() { return 1; }
