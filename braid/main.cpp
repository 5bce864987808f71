#include "braid/cli/run.h"

int main(int argc, char** argv) { return braid::cli::run(argc, argv); }
