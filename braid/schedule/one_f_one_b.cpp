#include "braid/schedule/one_f_one_b.h"

#include <algorithm>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

std::vector<Action> rank_order(const PipelineShape& shape, int32_t rank) {
  std::vector<Action> order;
  order.reserve(2 * static_cast<size_t>(shape.microbatches));
  int32_t forwards = 0;
  int32_t backwards = 0;
  const auto forward = [&] { order.push_back({.op = Op::kForward, .microbatch = forwards++}); };
  const auto backward = [&] { order.push_back({.op = Op::kBackward, .microbatch = backwards++}); };

  // Later ranks start later, so they need fewer forwards in hand.
  const int32_t warm_up = std::min(shape.ranks - 1 - rank, shape.microbatches);
  while (forwards < warm_up) forward();
  while (forwards < shape.microbatches) {
    forward();
    backward();
  }
  while (backwards < shape.microbatches) backward();
  return order;
}

}  // namespace

Schedule one_f_one_b(const PipelineShape& shape) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 1, "1F1B runs with 1 chunk per rank, got ",
                       shape.chunks_per_rank);
  Schedule schedule = {.name = "1F1B", .shape = shape};
  schedule.ranks.reserve(static_cast<size_t>(shape.ranks));
  for (int32_t rank = 0; rank < shape.ranks; ++rank) schedule.ranks.push_back(rank_order(shape, rank));
  return schedule;
}

}  // namespace braid::schedule
