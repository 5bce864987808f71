#include "braid/schedule/generators/building_blocks.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/schedule/generators/v_shape.h"
#include "braid/schedule/search/list_scheduler.h"
#include "braid/schedule/search/v_search.h"

namespace braid::schedule {
namespace {

// Every microbatch takes six slots of each rank: F, I and W of two chunks.
constexpr int32_t kPeriod = 6;

// The slots of F0, F1, I1 and I0 of microbatch 0 on one rank.
using Block = std::array<int32_t, kVKinds>;

// Forwards and gradients go down and up the V at one stage a slot. Where that would put two actions into one
// slot, the gradients start a little later.
Block v_min_block(int32_t ranks, int32_t rank) {
  const int32_t delay = ranks % 3 == 0 ? 2 : 0;
  return {rank, 2 * ranks - 1 - rank, 2 * ranks + delay + rank, 4 * ranks + delay - 1 - rank};
}

// Down the V at one stage in two slots, up at one a slot.
Block v_half_block(int32_t ranks, int32_t rank) {
  const int32_t delay = ranks % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * ranks - 2 - rank, 3 * ranks + delay + 2 * rank - 1, 6 * ranks + delay - 2 - rank};
}

// Step 1, unroll: the block again every period. Step 2, fill: each W in the first slot left free after its I.
std::vector<Action> unrolled(const Block& block, int32_t microbatches) {
  constexpr std::array kActions = {
      Action{.op = Op::kForward, .chunk = 0}, Action{.op = Op::kForward, .chunk = 1},
      Action{.op = Op::kBackwardInput, .chunk = 1}, Action{.op = Op::kBackwardInput, .chunk = 0}};
  std::vector<Action> order;
  std::deque<Action> weights;
  const auto total = static_cast<size_t>(kPeriod) * static_cast<size_t>(microbatches);
  for (int32_t slot = 0; order.size() < total; ++slot) {
    bool is_free = true;
    for (size_t kind = 0; kind < kVKinds; ++kind) {
      const int32_t past = slot - block[kind];
      if (past < 0 || past % kPeriod != 0 || past / kPeriod >= microbatches) continue;
      Action action = kActions[kind];
      action.microbatch = past / kPeriod;
      order.push_back(action);
      is_free = false;
      if (action.op != Op::kBackwardInput) continue;
      action.op = Op::kBackwardWeight;
      weights.push_back(action);
    }
    if (!is_free || weights.empty()) continue;
    order.push_back(weights.front());
    weights.pop_front();
  }
  return order;
}

// The most microbatches between F and W.
struct Peaks {
  std::array<int32_t, 2> per_chunk{};
  int32_t both = 0;
};

Peaks peaks_of(const std::vector<Action>& list) {
  Peaks peaks;
  std::array<int32_t, 2> now{};
  for (const Action& action : list) {
    const auto chunk = static_cast<size_t>(action.chunk);
    if (action.op == Op::kForward) ++now[chunk];
    if (action.op == Op::kBackwardWeight) --now[chunk];
    peaks.per_chunk[chunk] = std::max(peaks.per_chunk[chunk], now[chunk]);
    peaks.both = std::max(peaks.both, now[0] + now[1]);
  }
  return peaks;
}

Schedule from_blocks(std::string_view name, const PipelineShape& shape, const Workload& workload,
                     Block (*block_of)(int32_t ranks, int32_t rank)) {
  Schedule block_order = v_schedule(std::string(name), shape);
  ListRules by_slot = {.slots = {}, .period = kPeriod};
  int32_t peak = 0;
  for (int32_t rank = 0; rank < shape.ranks; ++rank) {
    const Block block = block_of(shape.ranks, rank);
    by_slot.slots.push_back(block);
    block_order.ranks.push_back(unrolled(block, shape.microbatches));
    // With 2p microbatches a rank reaches the most that it ever keeps.
    const Peaks peaks = peaks_of(unrolled(block, std::max(shape.microbatches, 2 * shape.ranks)));
    by_slot.most_in_flight.push_back(peaks.per_chunk);
    peak = std::max(peak, peaks.both);
  }

  // Step 3, reorder: every action as early as its data, the blocks' peak and the limits of a rule allow.
  const VProblem problem = v_problem(shape, {.durations = workload.durations}, peak);
  std::vector<ListRules> rules = preferences(by_slot.most_in_flight);
  for (ListRules& rule : preferences(tapered_limits(problem))) rules.push_back(std::move(rule));
  rules.push_back(std::move(by_slot));
  Schedule reordered = block_order;
  reordered.ranks = shortest_list_schedule(problem, rules).ranks;

  // Step 4, squeeze: only an order's duration with the workload's times counts.
  return shorter(std::move(block_order), std::move(reordered), workload.durations);
}

}  // namespace

Schedule v_half(const PipelineShape& shape, const Workload& workload) {
  return from_blocks("V-Half", shape, workload, v_half_block);
}

Schedule v_min(const PipelineShape& shape, const Workload& workload) {
  return from_blocks("V-Min", shape, workload, v_min_block);
}

}  // namespace braid::schedule
