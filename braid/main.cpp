#include "braid/cli/run.h"

// Entered before the initialisers of libraries: some allocate, and MKL's ends a process in a deleted
// directory.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = braid::cli::prepare_process;

int main(int argc, char** argv) { return braid::cli::run(argc, argv); }
