#include "braid/kernels/cpu/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "braid/base/error.h"
#include "braid/kernels/cpu/dispatch.h"

namespace braid::kernels::cpu {
namespace {

// Best first: a lower bit is a better target.
std::vector<int64_t> usable_targets() {
  std::vector<int64_t> targets;
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t rest = usable; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
  return targets;
}

// Lets Highway choose again after the work, however it ends.
struct HeldTarget {
  explicit HeldTarget(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~HeldTarget() { hwy::SetSupportedTargetsForTest(0); }
  HeldTarget(const HeldTarget&) = delete;
  HeldTarget& operator=(const HeldTarget&) = delete;
};

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const int64_t target : usable_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

void with_instruction_set(const std::string& name, const std::function<void()>& work) {
  for (const int64_t target : usable_targets()) {
    if (name != hwy::TargetName(target)) continue;
    const HeldTarget held(target);
    work();
    return;
  }
  throw ConfigError(cat("this processor has no instruction set named ", name));
}

}  // namespace braid::kernels::cpu
