#include "braid/schedule/generators/alternation.h"

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

// The k-th forward of a rank, or its k-th backward if `from_the_last` chunk.
Action turn(const PipelineShape& shape, int32_t round, int32_t k, bool from_the_last) {
  const int32_t chunk = k / round % shape.chunks_per_rank;
  return {.chunk = from_the_last ? shape.chunks_per_rank - 1 - chunk : chunk,
          .microbatch = k / (round * shape.chunks_per_rank) * round + k % round};
}

bool has_equal_rounds(int32_t ranks, int32_t microbatches) {
  return microbatches % std::max(1, microbatches / ranks) == 0;
}

}  // namespace

std::vector<Action> alternate(const PipelineShape& shape, const Alternation& rule) {
  const int32_t total = shape.chunks_per_rank * shape.microbatches;
  std::vector<Action> order;
  order.reserve(3 * static_cast<size_t>(total));
  const auto append = [&](Op op, int32_t k) {
    Action action = turn(shape, rule.round, k, op != Op::kForward);
    action.op = op;
    order.push_back(action);
  };

  int32_t forwards = 0;
  int32_t weights = 0;
  while (forwards < std::min(rule.warm_up, total)) append(Op::kForward, forwards++);
  for (int32_t k = 0; k < total; ++k) {
    if (forwards < total) append(Op::kForward, forwards++);
    if (k < rule.fused) {
      append(Op::kBackward, k);
      ++weights;
      continue;
    }
    append(Op::kBackwardInput, k);
    if (k + 1 - weights > rule.lag) append(Op::kBackwardWeight, weights++);
  }
  while (weights < total) append(Op::kBackwardWeight, weights++);
  return order;
}

Schedule alternating(std::string name, const PipelineShape& shape,
                     const std::function<Alternation(int32_t rank)>& rule_of) {
  validate(shape);
  Schedule schedule = {.name = std::move(name), .shape = shape};
  schedule.ranks.reserve(static_cast<size_t>(shape.ranks));
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    schedule.ranks.push_back(alternate(shape, rule_of(rank)));
  }
  return schedule;
}

void require_one_chunk(const PipelineShape& shape, std::string_view name, std::string_view for_more) {
  require<ConfigError>(shape.chunks_per_rank <= 1, name, " runs with 1 chunk per rank, got ",
                       shape.chunks_per_rank, ": use ", for_more, " for more");
}

int32_t microbatches_per_round(const PipelineShape& shape, std::string_view name) {
  validate(shape);
  const int32_t rounds = std::max(1, shape.microbatches / shape.ranks);
  if (shape.microbatches % rounds == 0) return shape.microbatches / rounds;
  // Multiples of the ranks always do, so both searches end.
  int32_t lower = shape.microbatches - 1;
  while (!has_equal_rounds(shape.ranks, lower)) --lower;
  int32_t higher = shape.microbatches + 1;
  while (!has_equal_rounds(shape.ranks, higher)) ++higher;
  throw ConfigError(cat(name, " on ", shape.ranks, " ranks cannot run ", shape.microbatches,
                        " microbatches in ", rounds, " equal rounds: take ", lower, " or ", higher,
                        " microbatches"));
}

}  // namespace braid::schedule
