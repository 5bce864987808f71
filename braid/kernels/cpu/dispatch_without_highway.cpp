#include "braid/base/error.h"
#include "braid/kernels/cpu/dispatch.h"

namespace braid::kernels::cpu {

std::vector<std::string> instruction_sets() { return {}; }

void with_instruction_set(const std::string& name, const std::function<void()>& /*work*/) {
  throw ConfigError(cat("no instruction set ", name, ": this build has BRAID_WITH_HIGHWAY=OFF"));
}

}  // namespace braid::kernels::cpu
