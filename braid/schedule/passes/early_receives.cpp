#include "braid/schedule/passes/early_receives.h"

#include <utility>

namespace braid::schedule {
namespace {

std::vector<Action> earlier(const std::vector<Action>& list) {
  std::vector<Action> result;
  result.reserve(list.size());
  std::vector<Action>
      held;  // from the last compute action on, waiting for the receives that belong before it
  std::vector<Action> receives;
  const auto release = [&] {
    result.insert(result.end(), receives.begin(), receives.end());
    result.insert(result.end(), held.begin(), held.end());
    receives.clear();
    held.clear();
  };
  for (const Action& action : list) {
    if (is_receive(action.op)) {
      receives.push_back(action);
      continue;
    }
    if (is_compute(action.op)) release();
    held.push_back(action);
  }
  release();
  return result;
}

}  // namespace

Schedule post_receives_early(const Schedule& schedule) {
  Schedule result = schedule;
  for (std::vector<Action>& list : result.ranks) list = earlier(list);
  return result;
}

}  // namespace braid::schedule
