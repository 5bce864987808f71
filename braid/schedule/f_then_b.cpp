#include "braid/schedule/f_then_b.h"

#include "braid/base/error.h"

namespace braid::schedule {

Schedule f_then_b(const PipelineShape& shape) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 1, "FThenB runs with 1 chunk per rank, got ",
                       shape.chunks_per_rank);
  std::vector<Action> list;
  list.reserve(2 * static_cast<size_t>(shape.microbatches));
  for (const Op op : {Op::kForward, Op::kBackward}) {
    for (int32_t i = 0; i < shape.microbatches; ++i) list.push_back({.op = op, .microbatch = i});
  }
  Schedule schedule = {.name = "FThenB", .shape = shape};
  schedule.ranks.assign(static_cast<size_t>(shape.ranks), list);
  return schedule;
}

}  // namespace braid::schedule
