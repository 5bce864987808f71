#include "braid/cli/machine.h"

namespace braid::cli {

std::filesystem::path program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

}  // namespace braid::cli
