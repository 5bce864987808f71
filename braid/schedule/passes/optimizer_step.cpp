#include "braid/schedule/passes/optimizer_step.h"

#include "braid/base/error.h"

namespace braid::schedule {

Schedule place_optimizer_step(Schedule schedule) {
  for (std::vector<Action>& list : schedule.ranks) {
    for (const Action& action : list) {
      require<ConfigError>(action.op != Op::kOptimizerStep, "schedule ", schedule.name,
                           " has an optimizer step already");
    }
    list.push_back({.op = Op::kOptimizerStep});
  }
  return schedule;
}

}  // namespace braid::schedule
