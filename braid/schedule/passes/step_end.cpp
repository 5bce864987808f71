#include "braid/schedule/passes/step_end.h"

#include <algorithm>
#include <utility>

namespace braid::schedule {
namespace {

// One rank's list with the end of its step. Positions are of the list as it was.
class RankEnd {
 public:
  RankEnd(const Schedule& schedule, int32_t rank)
      : list_(schedule.ranks[static_cast<size_t>(rank)]),
        rank_(rank),
        reductions_(tied_reductions(schedule, rank)),
        is_scaled_(schedule.step_end.norm_use == NormUse::kScalesUpdate),
        has_data_axes_(schedule.data.is_on()),
        last_weight_(static_cast<size_t>(schedule.shape.chunks_per_rank), 0),
        last_forward_(last_weight_.size(), 0),
        is_updated_(last_weight_.size(), false),
        following_(list_.size() + 1) {
    for (size_t i = 0; i < list_.size(); ++i) {
      const Op op = list_[i].op;
      if (op == Op::kForward) last_forward_[static_cast<size_t>(list_[i].chunk)] = i;
      if (const auto weight = weight_action(list_[i])) last_weight_[static_cast<size_t>(weight->chunk)] = i;
      if (is_send(op) || is_receive(op)) last_message_ = i;
      if (is_send(op)) last_send_ = i;
    }
  }

  std::vector<Action> run() {
    // No other rank needs anything that the rank starts after its last send. Gradients that are reduced over
    // data ranks are complete only at the end.
    size_t free_from = has_data_axes_ ? list_.size() : last_send_;
    for (const TiedReduction& reduction : reductions_) {
      const std::vector<size_t>& complete = reduction.made_in_forward ? last_forward_ : last_weight_;
      free_from = std::max({free_from, last_message_, complete[static_cast<size_t>(reduction.chunk)]});
      if (reduction.other.rank == rank_) {
        free_from = std::max(free_from, last_weight_of(reduction.other.chunk));
      }
      add(free_from, Op::kReduceTied, reduction.chunk);
    }
    if (!is_scaled_ && !has_data_axes_) update_early(free_from);

    const size_t end = list_.size();
    for (const TiedReduction& reduction : reductions_) {
      if (reduction.counts_in_norm) add(end, Op::kWaitReduceTied, reduction.chunk);
    }
    add(end, Op::kNorm);
    if (is_scaled_) add(end, Op::kWaitNorm);
    for (int32_t chunk = 0; chunk < std::ssize(last_weight_); ++chunk) {
      if (is_updated_[static_cast<size_t>(chunk)]) continue;
      for (const TiedReduction& reduction : reductions_) {
        if (reduction.chunk == chunk && !reduction.counts_in_norm) add(end, Op::kWaitReduceTied, chunk);
      }
      add(end, Op::kUpdate, chunk);
    }

    std::vector<Action> result;
    result.reserve(list_.size() + 4 + 2 * last_weight_.size());
    for (size_t i = 0; i <= end; ++i) {
      if (i < end) result.push_back(list_[i]);
      result.insert(result.end(), following_[i].begin(), following_[i].end());
    }
    return result;
  }

 private:
  size_t last_weight_of(int32_t chunk) const { return last_weight_[static_cast<size_t>(chunk)]; }

  void add(size_t position, Op op, int32_t chunk = 0) {
    following_[position].push_back({.op = op, .chunk = chunk});
  }

  // Updates chunks that are complete while NORM, which comes first otherwise, still lacks an input.
  void update_early(size_t free_from) {
    const size_t complete = *std::max_element(last_weight_.begin(), last_weight_.end());
    const bool norm_waits =
        std::any_of(reductions_.begin(), reductions_.end(),
                    [](const TiedReduction& reduction) { return reduction.counts_in_norm; });
    for (int32_t chunk = 0; chunk < std::ssize(last_weight_); ++chunk) {
      const bool is_tied =
          std::any_of(reductions_.begin(), reductions_.end(), [&](const TiedReduction& reduction) {
            return reduction.chunk == chunk || reduction.other == Place{.rank = rank_, .chunk = chunk};
          });
      const size_t position = std::max(free_from, last_weight_of(chunk));
      if (is_tied || (position >= complete && !norm_waits)) continue;
      add(position, Op::kUpdate, chunk);
      is_updated_[static_cast<size_t>(chunk)] = true;
    }
  }

  const std::vector<Action>& list_;
  int32_t rank_;
  std::vector<TiedReduction> reductions_;
  bool is_scaled_;
  bool has_data_axes_;
  std::vector<size_t> last_weight_;   // by chunk
  std::vector<size_t> last_forward_;  // by chunk
  size_t last_message_ = 0;
  size_t last_send_ = 0;
  std::vector<bool> is_updated_;
  std::vector<std::vector<Action>> following_;
};

}  // namespace

Schedule place_step_end(Schedule schedule) {
  if (has_step_end(schedule)) return schedule;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    schedule.ranks[static_cast<size_t>(rank)] = RankEnd(schedule, rank).run();
  }
  return schedule;
}

}  // namespace braid::schedule
