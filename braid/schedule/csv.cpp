#include "braid/schedule/csv.h"

namespace braid::schedule {

std::string to_csv(const Schedule& schedule) {
  validate(schedule);
  std::string text;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    bool is_first = true;
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (!is_compute(action.op)) continue;
      if (!is_first) text += ',';
      is_first = false;
      text += std::to_string(stage_of(schedule, {.rank = rank, .chunk = action.chunk}));
      text += to_string(action.op);
      text += std::to_string(action.microbatch);
    }
    text += '\n';
  }
  return text;
}

}  // namespace braid::schedule
