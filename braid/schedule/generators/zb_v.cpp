#include "braid/schedule/generators/zb_v.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/generators/v_shape.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/search/list_scheduler.h"
#include "braid/schedule/search/v_search.h"

namespace braid::schedule {
namespace {

// Writes one rank's order for `planned` microbatches and omits those that do not exist.
class HandOrder {
 public:
  HandOrder(const PipelineShape& shape, int32_t rank)
      : ranks_(shape.ranks),
        rank_(rank),
        microbatches_(shape.microbatches),
        planned_(std::max(shape.microbatches, 2 * shape.ranks - 1)) {}

  // The steps of the source, numbered as there.
  std::vector<Action> write() {
    // 1. Forwards of chunk 0 until the first comes back on chunk 1.
    repeat(2 * (ranks_ - rank_) - 1, [&] { forward(0); });
    // 2. Forwards of both chunks until the first gradient comes.
    repeat(rank_, [&] { forward(1), forward(0); });
    // 3. All of chunk 1 until the first gradient comes back on chunk 0.
    repeat(ranks_ - rank_, [&] { forward(1), backward(1), weight(1); });
    // 4. The steady state.
    while (forwards_[1] < forwards_[0] || forwards_[0] < planned_) {
      if (forwards_[0] < planned_) forward(0);
      backward(0), weight(0), forward(1), backward(1), weight(1);
    }
    // 5. Gradients of both chunks.
    repeat(rank_, [&] { backward(0), backward(1); });
    // 6. The last gradients of chunk 0.
    repeat(ranks_ - rank_, [&] { backward(0), weight(0); });
    // 7. The weight gradients deferred since step 5.
    while (weights_[1] < planned_) weight(1);
    while (weights_[0] < planned_) weight(0);
    return std::move(order_);
  }

 private:
  template <typename Step>
  static void repeat(int32_t times, Step step) {
    for (int32_t i = 0; i < times; ++i) step();
  }

  void forward(int32_t chunk) { add(Op::kForward, chunk, forwards_); }
  void backward(int32_t chunk) { add(Op::kBackwardInput, chunk, backwards_); }
  void weight(int32_t chunk) { add(Op::kBackwardWeight, chunk, weights_); }

  void add(Op op, int32_t chunk, std::array<int32_t, 2>& next) {
    const int32_t microbatch = next[static_cast<size_t>(chunk)]++;
    if (microbatch < microbatches_) order_.push_back({op, chunk, microbatch});
  }

  int32_t ranks_;
  int32_t rank_;
  int32_t microbatches_;
  int32_t planned_;
  std::array<int32_t, 2> forwards_{};  // the next microbatch of each chunk
  std::array<int32_t, 2> backwards_{};
  std::array<int32_t, 2> weights_{};
  std::vector<Action> order_;
};

int64_t highest_peak(const Schedule& schedule, const Memory& memory) {
  const std::vector<int64_t> peaks = peak_memory(schedule, memory);
  return *std::max_element(peaks.begin(), peaks.end());
}

void require_room(const VProblem& problem, const Memory& memory) {
  const auto greediest = std::max_element(
      problem.ranks.begin(), problem.ranks.end(),
      [](const VRank& left, const VRank& right) { return least_memory(left) < least_memory(right); });
  require<ConfigError>(least_memory(*greediest) <= problem.memory_limit,
                       "ZBVPP cannot keep to the memory limit of ", amount_text(memory, problem.memory_limit),
                       ": rank ", greediest - problem.ranks.begin(), " needs ",
                       amount_text(memory, least_memory(*greediest)),
                       " for a single microbatch on its 2 chunks; raise the limit to that or more");
}

}  // namespace

Schedule zb_v_by_hand(const PipelineShape& shape) {
  Schedule schedule = v_schedule("ZBVPP", shape);
  for (int32_t rank = 0; rank < shape.ranks; ++rank) schedule.ranks.push_back(HandOrder(shape, rank).write());
  return schedule;
}

Schedule zbvpp(const PipelineShape& shape, const Workload& workload) {
  Schedule by_hand = zb_v_by_hand(shape);
  const int64_t hand_peak = highest_peak(by_hand, workload.memory);
  const VProblem problem = v_problem(shape, workload, workload.memory_limit.value_or(hand_peak));
  require_room(problem, workload.memory);

  ListOrder listed = shortest_list_schedule(problem, preferences(tapered_limits(problem)));
  const std::optional<ListOrder> refilled = shortest_filling(problem, by_hand.ranks);
  if (refilled && refilled->longest_span_ticks <= listed.longest_span_ticks) listed = *refilled;
  Schedule best = by_hand;
  best.ranks = std::move(listed.ranks);
  if (hand_peak > problem.memory_limit) return best;
  return shorter(std::move(by_hand), std::move(best), workload.durations);
}

}  // namespace braid::schedule
