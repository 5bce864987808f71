#include "braid/schedule/passes/segments.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace braid::schedule {
namespace {

// Whether the op reads weights.
bool uses_values(Op op) { return op == Op::kForward || is_input_gradient(op); }

// One rank's list with the actions on its segments.
class RankSegments {
 public:
  RankSegments(const Schedule& schedule, int32_t rank)
      : schedule_(schedule),
        data_(schedule.data),
        rank_(rank),
        list_(schedule.ranks[static_cast<size_t>(rank)]) {}

  std::vector<Action> run() {
    cut();
    for (size_t i = 0; i < cut_.size(); ++i) visit(i);
    if (!has_end_) end_reductions();
    return std::move(result_);
  }

 private:
  int32_t count(const Action& action) const {
    return segments_of(schedule_, stage_of(schedule_, {.rank = rank_, .chunk = action.chunk}));
  }

  // Whether the gradients that the action completes are reduced after it.
  bool is_reduced(const Action& action) const {
    const std::optional<Action> weight = weight_action(action);
    if (!weight) return false;
    const bool is_last = weight->microbatch + 1 == schedule_.shape.microbatches;
    return is_last || (data_.has_sharding && data_.reduces_each_microbatch);
  }

  bool is_cut(const Action& action) const {
    return (data_.gathers_before_use() && uses_values(action.op)) || is_reduced(action) ||
           (data_.gathers_after_update() && action.op == Op::kUpdate);
  }

  void cut() {
    for (const Action& whole : list_) {
      has_end_ |= is_step_end(whole.op);
      Action action = whole;
      // A W in hand is cut together with its action where they have the same segments in the same order;
      // elsewhere it comes before it.
      const bool is_cut_alike = action.op == Op::kBackwardInput && action.weight.chunk == action.chunk;
      if (action.weight.exists() && is_cut(action) && !is_cut_alike) {
        cut(*weight_action(action));
        action.weight = {};
      }
      cut(action);
    }
    next_use_.assign(cut_.size() + 1, cut_.size());
    for (size_t i = cut_.size(); i-- > 0;) next_use_[i] = uses_values(cut_[i].op) ? i : next_use_[i + 1];
  }

  void cut(const Action& action) {
    const bool is_cut = this->is_cut(action);
    // The halves of a backward are cut alike: W follows I segment by segment.
    const int32_t segments = is_cut ? count(action) : 1;
    for (int32_t i = 0; i < segments; ++i) {
      Action& part = cut_.emplace_back(action);
      const bool ascends = action.op == Op::kForward || action.op == Op::kUpdate;
      if (is_cut) part.segment = ascends ? i : segments - 1 - i;
    }
  }

  void add(Op op, const Action& of) {
    result_.push_back({.op = op, .chunk = of.chunk, .segment = of.segment});
  }

  static bool is_same_segment(const Action& a, const Action& b) {
    return a.chunk == b.chunk && a.segment == b.segment;
  }

  void visit(size_t i) {
    const Action& action = cut_[i];
    if (is_step_end(action.op)) end_reductions();
    const bool gathers = data_.gathers_before_use() && uses_values(action.op);
    const size_t next = next_use_[i + 1];
    const bool has_next = gathers && next < cut_.size() && !is_same_segment(cut_[next], action);
    if (gathers) {
      if (!gathering_) start_gather(action);
      if (!is_whole_) add(Op::kWaitGather, action);
      is_whole_ = true;
      if (has_next) add(Op::kGather, cut_[next]);
    }
    if (const auto weight = weight_action(action)) wait_before_writing(*weight);
    result_.push_back(action);
    if (gathers && (has_next || next == cut_.size())) {
      add(Op::kRelease, action);
      gathering_ = has_next;
      is_whole_ = false;
    }
    if (is_reduced(action)) completed_ = weight_action(action);
    // What the action has made leaves first: the next rank waits for it, and a reduction may have to wait for
    // the one before it.
    const bool starts_message_next =
        i + 1 < cut_.size() && (is_send(cut_[i + 1].op) || is_receive(cut_[i + 1].op));
    if (completed_ && !starts_message_next) reduce(*std::exchange(completed_, std::nullopt));
    if (action.op == Op::kUpdate && data_.gathers_after_update()) {
      add(Op::kGather, action);
      gathered_.push_back(action);
    }
    if (i + 1 == cut_.size()) {
      for (const Action& update : gathered_) add(Op::kWaitGather, update);
    }
  }

  void start_gather(const Action& action) {
    add(Op::kGather, action);
    gathering_ = true;
    is_whole_ = false;
  }

  void wait_before_writing(const Action& action) {
    const auto mine = std::find_if(reducing_.begin(), reducing_.end(), [&](const Action& other) {
      return other.chunk == action.chunk &&
             (action.segment == kAllSegments || other.segment == action.segment);
    });
    if (mine == reducing_.end()) return;
    add(Op::kWaitReduce, *mine);
    reducing_.erase(mine);
  }

  void reduce(const Action& action) {
    end_reduction();
    const bool is_last = action.microbatch + 1 == schedule_.shape.microbatches;
    if (data_.has_sharding) {
      add(Op::kReduce, action);
      reducing_.push_back(action);
    } else {
      add(Op::kReduceDp, action);
    }
    if (is_last) last_.push_back(action);
  }

  // Of the one that was started last, as another is about to start.
  void end_reduction() {
    while (!reducing_.empty()) {
      const Action ended = reducing_.front();
      reducing_.erase(reducing_.begin());
      add(Op::kWaitReduce, ended);
      if (data_.has_dp && ended.microbatch + 1 == schedule_.shape.microbatches) add(Op::kReduceDp, ended);
    }
  }

  void end_reductions() {
    end_reduction();
    if (data_.has_dp) {
      for (const Action& ended : last_) add(Op::kWaitReduceDp, ended);
    }
    last_.clear();
  }

  const Schedule& schedule_;
  const DataAxes& data_;
  const int32_t rank_;
  const std::vector<Action>& list_;
  std::vector<Action> cut_;
  std::vector<size_t> next_use_;  // by position in cut_: the first at or after it that uses values
  bool has_end_ = false;
  bool gathering_ = false;           // the values that are used next have been asked for
  bool is_whole_ = false;            // and are there
  std::optional<Action> completed_;  // the W whose gradients are reduced after the messages that start next
  std::vector<Action> reducing_;     // over the sharding axis
  std::vector<Action> last_;         // reduced after the last microbatch
  std::vector<Action> gathered_;     // after the update
  std::vector<Action> result_;
};

}  // namespace

Schedule place_segments(Schedule schedule) {
  if (!schedule.data.is_on()) return schedule;
  std::vector<std::vector<Action>> ranks;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    ranks.push_back(RankSegments(schedule, rank).run());
  }
  schedule.ranks = std::move(ranks);
  return schedule;
}

}  // namespace braid::schedule
