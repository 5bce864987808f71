#include "braid/schedule/check_step_end.h"

#include <algorithm>
#include <optional>

namespace braid::schedule {
namespace {

// The rules of one rank, in the order of its list.
class RankRules {
 public:
  RankRules(const Schedule& schedule, int32_t rank)
      : schedule_(schedule),
        rank_(rank),
        list_(schedule.ranks[static_cast<size_t>(rank)]),
        reductions_(tied_reductions(schedule, rank)),
        is_scaled_(schedule.step_end.norm_use == NormUse::kScalesUpdate),
        last_weight_(static_cast<size_t>(schedule.shape.chunks_per_rank), 0),
        last_forward_(last_weight_.size(), 0) {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].op == Op::kForward) last_forward_[static_cast<size_t>(list_[i].chunk)] = i;
      if (const auto weight = weight_action(list_[i])) last_weight_[static_cast<size_t>(weight->chunk)] = i;
    }
  }

  void prove() {
    for (size_t i = 0; i < list_.size(); ++i) visit(i);
    for (const TiedReduction& reduction : reductions_) {
      require_present(Op::kReduceTied, reduction.chunk);
      require_present(Op::kWaitReduceTied, reduction.chunk);
    }
    require_present(Op::kNorm);
    if (is_scaled_) require_present(Op::kWaitNorm);
    for (int32_t chunk = 0; chunk < schedule_.shape.chunks_per_rank; ++chunk) require_updated(chunk);
  }

 private:
  void visit(size_t position) {
    const Action& action = list_[position];
    switch (action.op) {
      case Op::kForward:
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward:
      case Op::kGather:
      case Op::kWaitGather:
      case Op::kRelease:
      case Op::kReduce:
      case Op::kWaitReduce:
      case Op::kReduceDp:
      case Op::kWaitReduceDp:
        return;
      case Op::kSendForward:
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
        require(started_ == 0, position,
                "messages must come before REDUCE_TIED, which uses the same connections: they are matched by "
                "order alone");
        return;
      case Op::kReduceTied:
        visit_reduce(position, action.chunk);
        break;
      case Op::kWaitReduceTied:
        require(is_done(Op::kReduceTied, action.chunk), position, "waits for what has not started: ",
                to_string(Action{.op = Op::kReduceTied, .chunk = action.chunk}), " must come before it");
        break;
      case Op::kNorm:
        for (int32_t chunk = 0; chunk < schedule_.shape.chunks_per_rank; ++chunk) {
          require_complete(chunk, position);
        }
        for (const TiedReduction& reduction : reductions_) {
          if (reduction.counts_in_norm) require_before(Op::kWaitReduceTied, reduction.chunk, position);
        }
        break;
      case Op::kWaitNorm:
        require(is_scaled_, position, "the norm does not scale the updates: nothing may wait for it");
        require_before(Op::kNorm, 0, position);
        break;
      case Op::kUpdate:
        visit_update(position, action.chunk);
        break;
    }
    require(std::find(done_.begin(), done_.end(), action) == done_.end() && !is_done(action.op, action.chunk),
            position, "is there twice");
    done_.push_back(action);
  }

  void visit_reduce(size_t position, int32_t chunk) {
    const auto mine = std::find_if(reductions_.begin(), reductions_.end(),
                                   [&](const TiedReduction& reduction) { return reduction.chunk == chunk; });
    require(mine != reductions_.end(), position, "stage ",
            stage_of(schedule_, {.rank = rank_, .chunk = chunk}),
            " has nothing to reduce: it is tied to no other stage, or to an earlier one of this rank");
    if (mine->made_in_forward) {
      const size_t last = last_forward_[static_cast<size_t>(chunk)];
      require(last < position, position, "needs all forwards of chunk ", chunk, " before it, but ",
              to_string(list_[last]), " comes at position ", last);
    } else {
      require_complete(chunk, position);
    }
    if (mine->other.rank == rank_) require_complete(mine->other.chunk, position);
    if (is_done(Op::kReduceTied, chunk)) return;  // rejected next
    const Action expected = {.op = Op::kReduceTied, .chunk = reductions_[started_].chunk};
    require(expected.chunk == chunk, position,
            "all ranks reduce tied stages in the same order: ", to_string(expected), " must come before it");
    ++started_;
  }

  void visit_update(size_t position, int32_t chunk) {
    require_complete(chunk, position);
    const Place place = {.rank = rank_, .chunk = chunk};
    for (const TiedReduction& reduction : reductions_) {
      if (reduction.chunk == chunk || reduction.other == place) {
        require_before(Op::kWaitReduceTied, reduction.chunk, position);
      }
    }
    if (is_scaled_) require_before(Op::kWaitNorm, 0, position);
  }

  template <typename... Parts>
  void require(bool condition, size_t position, const Parts&... parts) const {
    require_at(condition, schedule_, rank_, position, parts...);
  }

  bool is_done(Op op, int32_t chunk) const {
    return std::find(done_.begin(), done_.end(), Action{.op = op, .chunk = chunk}) != done_.end();
  }

  void require_before(Op op, int32_t chunk, size_t position) const {
    require(is_done(op, chunk), position, "needs ", to_string(Action{.op = op, .chunk = chunk}),
            " before it");
  }

  void require_present(Op op, int32_t chunk = 0) const {
    require(is_done(op, chunk), list_.size(), to_string(Action{.op = op, .chunk = chunk}), " is missing");
  }

  // As a whole, or segment by segment.
  void require_updated(int32_t chunk) const {
    if (is_done(Op::kUpdate, chunk)) return;
    const int32_t segments = segments_of(schedule_, stage_of(schedule_, {.rank = rank_, .chunk = chunk}));
    const auto is_there = [&](const Action& update) {
      return std::find(done_.begin(), done_.end(), update) != done_.end();
    };
    bool is_cut = false;
    for (int32_t i = 0; i < segments; ++i)
      is_cut |= is_there({.op = Op::kUpdate, .chunk = chunk, .segment = i});
    if (!is_cut) require_present(Op::kUpdate, chunk);
    for (int32_t i = 0; i < segments; ++i) {
      const Action update = {.op = Op::kUpdate, .chunk = chunk, .segment = i};
      require(is_there(update), list_.size(), to_string(update), " is missing");
    }
  }

  // A chunk's last weight gradient is also the last thing that it computes.
  void require_complete(int32_t chunk, size_t position) const {
    const size_t last = last_weight_[static_cast<size_t>(chunk)];
    require(last < position, position, "needs all weight gradients of chunk ", chunk, " before it, but ",
            to_string(list_[last]), " comes at position ", last);
  }

  const Schedule& schedule_;
  const int32_t rank_;
  const std::vector<Action>& list_;
  const std::vector<TiedReduction> reductions_;
  const bool is_scaled_;
  std::vector<size_t> last_weight_;   // by chunk
  std::vector<size_t> last_forward_;  // by chunk
  std::vector<Action> done_;          // of the step's end
  size_t started_ = 0;                // of reductions_
};

}  // namespace

void check_step_end(const Schedule& schedule) {
  if (!has_step_end(schedule)) return;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) RankRules(schedule, rank).prove();
}

}  // namespace braid::schedule
