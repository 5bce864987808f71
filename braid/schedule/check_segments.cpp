#include "braid/schedule/check_segments.h"

#include <algorithm>

namespace braid::schedule {
namespace {

enum class Values : uint8_t { kWhole, kPart, kGathering };

/// Of the gradients of one microbatch, or of the step.
enum class Gradients : uint8_t { kIncomplete, kReducing, kReduced, kReducingDp, kDone };

// The rules of one rank, in the order of its list.
class RankRules {
 public:
  RankRules(const Schedule& schedule, int32_t rank)
      : schedule_(schedule),
        data_(schedule.data),
        rank_(rank),
        list_(schedule.ranks[static_cast<size_t>(rank)]) {
    const Values at_first = data_.gathers_before_use() ? Values::kPart : Values::kWhole;
    for (int32_t chunk = 0; chunk < schedule.shape.chunks_per_rank; ++chunk) {
      segments_.emplace_back(static_cast<size_t>(count(chunk)), Segment{.values = at_first});
    }
    trains_ = std::any_of(list_.begin(), list_.end(),
                          [](const Action& action) { return weight_action(action).has_value(); });
    has_end_ =
        std::any_of(list_.begin(), list_.end(), [](const Action& action) { return is_step_end(action.op); });
  }

  void prove() {
    for (size_t i = 0; i < list_.size(); ++i) visit(i, list_[i]);
    const size_t end = list_.size();
    const Values at_last = data_.gathers_before_use() ? Values::kPart : Values::kWhole;
    for (int32_t chunk = 0; chunk < std::ssize(segments_); ++chunk) {
      for (int32_t segment = 0; segment < count(chunk); ++segment) {
        require_values(at_last, chunk, segment, end);
        if (trains_ && has_end_) require_sum(chunk, segment, end);
      }
    }
  }

 private:
  struct Segment {
    Values values = Values::kWhole;
    Gradients gradients = Gradients::kIncomplete;
    int32_t written = 0;  // microbatches whose weight gradients are there
    int32_t reduced = 0;  // microbatches whose weight gradients are summed over the sharding axis
  };

  int32_t count(int32_t chunk) const {
    return segments_of(schedule_, stage_of(schedule_, {.rank = rank_, .chunk = chunk}));
  }

  Segment& at(int32_t chunk, int32_t segment) {
    return segments_[static_cast<size_t>(chunk)][static_cast<size_t>(segment)];
  }

  template <typename... Parts>
  void require(bool condition, size_t position, const Parts&... parts) const {
    require_at(condition, schedule_, rank_, position, parts...);
  }

  static std::string name(Op op, int32_t chunk, int32_t segment) {
    return to_string(Action{.op = op, .chunk = chunk, .segment = segment});
  }

  void require_values(Values wanted, int32_t chunk, int32_t segment, size_t position) {
    const Values values = at(chunk, segment).values;
    if (values == wanted) return;
    const Op missing = wanted == Values::kPart        ? Op::kRelease
                       : values == Values::kGathering ? Op::kWaitGather
                                                      : Op::kGather;
    require(false, position, "needs ", name(missing, chunk, segment), " before it");
  }

  /// Of all data ranks and microbatches.
  void require_sum(int32_t chunk, int32_t segment, size_t position) {
    const Segment& mine = at(chunk, segment);
    if (mine.gradients == Gradients::kDone) return;
    const bool is_reduced = mine.gradients == Gradients::kReduced || mine.gradients == Gradients::kReducingDp;
    Op missing = Op::kWaitReduceDp;
    if (data_.has_sharding && !is_reduced) missing = Op::kWaitReduce;
    require(false, position, "needs ", name(missing, chunk, segment), " before it");
  }

  // Calls visit(chunk, segment) for those that the action works on.
  template <typename Visit>
  void for_each(const Action& action, const Visit& visit) {
    for (int32_t segment = 0; segment < count(action.chunk); ++segment) {
      if (action.segment == kAllSegments || action.segment == segment) visit(action.chunk, segment);
    }
  }

  void visit(size_t position, const Action& action) {
    if (action.weight.exists()) write(*weight_action(action), position);
    switch (action.op) {
      case Op::kForward:
      case Op::kBackwardInput:
        return for_each(action, [&](int32_t chunk, int32_t segment) {
          require_values(Values::kWhole, chunk, segment, position);
        });
      case Op::kBackward:
        for_each(action, [&](int32_t chunk, int32_t segment) {
          require_values(Values::kWhole, chunk, segment, position);
        });
        return write(action, position);
      case Op::kBackwardWeight:
        return write(action, position);
      case Op::kGather:
      case Op::kWaitGather:
      case Op::kRelease:
        return move_values(action, position);
      case Op::kReduce:
      case Op::kWaitReduce:
      case Op::kReduceDp:
      case Op::kWaitReduceDp:
        return move_gradients(action, position);
      case Op::kReduceTied:
        return for_each(action,
                        [&](int32_t chunk, int32_t segment) { require_sum(chunk, segment, position); });
      case Op::kNorm:
        for (int32_t chunk = 0; chunk < std::ssize(segments_); ++chunk) {
          for (int32_t segment = 0; segment < count(chunk); ++segment) require_sum(chunk, segment, position);
        }
        return;
      case Op::kUpdate:
        return for_each(action, [&](int32_t chunk, int32_t segment) {
          require_sum(chunk, segment, position);
          require_values(data_.gathers_before_use() ? Values::kPart : Values::kWhole, chunk, segment,
                         position);
          if (data_.gathers_after_update()) at(chunk, segment).values = Values::kPart;
        });
      case Op::kSendForward:
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward:
      case Op::kWaitReduceTied:
      case Op::kWaitNorm:
        return;
    }
  }

  void write(const Action& action, size_t position) {
    for_each(action, [&](int32_t chunk, int32_t segment) {
      Segment& mine = at(chunk, segment);
      require(
          mine.gradients != Gradients::kReducing && mine.gradients != Gradients::kReducingDp, position,
          "writes gradients that are being reduced: ",
          name(mine.gradients == Gradients::kReducing ? Op::kWaitReduce : Op::kWaitReduceDp, chunk, segment),
          " must come before it");
      require(!data_.reduces_each_microbatch || !data_.has_sharding || mine.written == mine.reduced, position,
              "needs ", name(Op::kReduce, chunk, segment),
              " before it: the gradients of each microbatch are reduced by themselves");
      ++mine.written;
      mine.gradients = Gradients::kIncomplete;
    });
  }

  void move_values(const Action& action, size_t position) {
    Segment& mine = at(action.chunk, action.segment);
    switch (action.op) {
      case Op::kGather:
        require(data_.gathers_before_use() || data_.gathers_after_update(), position,
                "every rank has all values: there is nothing to gather");
        require(mine.values == Values::kPart, position, "the values are complete, or are being gathered");
        mine.values = Values::kGathering;
        break;
      case Op::kWaitGather:
        require(mine.values == Values::kGathering, position,
                "waits for what has not started: ", name(Op::kGather, action.chunk, action.segment),
                " must come before it");
        mine.values = Values::kWhole;
        break;
      default:
        require(data_.gathers_before_use(), position, "ranks keep all values: there is nothing to release");
        require(mine.values == Values::kWhole, position, "the values are not complete");
        mine.values = Values::kPart;
        break;
    }
  }

  void move_gradients(const Action& action, size_t position) {
    Segment& mine = at(action.chunk, action.segment);
    const int32_t microbatches = schedule_.shape.microbatches;
    const auto wait = [&](Gradients started, Op op) {
      require(mine.gradients == started, position,
              "waits for what has not started: ", name(op, action.chunk, action.segment),
              " must come before it");
    };
    switch (action.op) {
      case Op::kReduce:
        require(data_.has_sharding, position, "the sharding axis has one rank: there is nothing to reduce");
        require(mine.written > mine.reduced, position, "there is no gradient to reduce");
        require(data_.reduces_each_microbatch || mine.written == microbatches, position,
                "gradients are reduced once a step, but ", microbatches - mine.written,
                " of the microbatches come after it");
        require(mine.gradients == Gradients::kIncomplete, position, "is there twice");
        mine.gradients = Gradients::kReducing;
        break;
      case Op::kWaitReduce:
        wait(Gradients::kReducing, Op::kReduce);
        mine.reduced = mine.written;
        mine.gradients =
            mine.reduced == microbatches && !data_.has_dp ? Gradients::kDone : Gradients::kReduced;
        break;
      case Op::kReduceDp:
        require(data_.has_dp, position, "the dp axis has one rank: there is nothing to reduce");
        require(mine.written == microbatches, position, "gradients are reduced over dp once a step, but ",
                microbatches - mine.written, " of the microbatches come after it");
        require(!data_.has_sharding || mine.gradients == Gradients::kReduced, position, "needs ",
                name(Op::kWaitReduce, action.chunk, action.segment), " before it");
        require(mine.gradients == Gradients::kIncomplete || mine.gradients == Gradients::kReduced, position,
                "is there twice");
        mine.gradients = Gradients::kReducingDp;
        break;
      default:
        wait(Gradients::kReducingDp, Op::kReduceDp);
        mine.gradients = Gradients::kDone;
        break;
    }
  }

  const Schedule& schedule_;
  const DataAxes& data_;
  const int32_t rank_;
  const std::vector<Action>& list_;
  bool trains_ = false;
  bool has_end_ = false;
  std::vector<std::vector<Segment>> segments_;  // by chunk
};

}  // namespace

void check_segments(const Schedule& schedule) {
  if (!schedule.data.is_on()) return;
  const bool has_actions = std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(), [](const Action& action) { return is_segment(action.op); });
  });
  if (!has_actions) return;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) RankRules(schedule, rank).prove();
}

}  // namespace braid::schedule
