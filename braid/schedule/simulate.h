// When each action of a schedule would start and end, given how long computing and messages take.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

using Seconds = std::chrono::duration<double>;

/// How long one stage computes: on one microbatch, and for the update.
struct StageTimes {
  Seconds forward{1.0};
  Seconds backward_input{1.0};
  Seconds backward_weight{1.0};
  std::optional<Seconds> fused_backward{};  ///< unset: its halves, one behind the other's exchange
  Seconds update{0.0};                      ///< of its weights, once per step
  /// The part of `forward` and of `backward_input` in which the rank waits for its tensor-parallel (mp)
  /// group, and weight gradients can be computed: those of a W in hand, and in a fused backward its own.
  Seconds forward_exchange{0.0};
  Seconds backward_exchange{0.0};

  Seconds backward() const {
    return fused_backward.value_or(backward_input + backward_weight -
                                   std::min(backward_exchange, backward_weight));
  }
  bool has_exchange() const { return forward_exchange + backward_exchange > Seconds(0); }
  /// 0 for anything but F and I.
  Seconds exchange_of(Op op) const {
    return op == Op::kForward ? forward_exchange
                              : (op == Op::kBackwardInput ? backward_exchange : Seconds(0));
  }
  /// The duration of an action with `op`; 0 for one that only starts something or waits.
  Seconds of(Op op) const;

  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

/// How long one segment of a stage takes.
struct SegmentTimes {
  double share = 1.0;   ///< of its stage's computing and update
  Seconds gather{0.0};  ///< from when its ranks have started until its values are complete
  Seconds reduce{0.0};  ///< of its gradients over the sharding axis, likewise
  Seconds reduce_dp{0.0};

  friend bool operator==(const SegmentTimes&, const SegmentTimes&) = default;
};

struct Durations {
  /// One element for each stage, or a single one that holds for all.
  std::vector<StageTimes> stages = {StageTimes{}};
  /// From the start of a send until its message can be used.
  Seconds communication{0.0};
  /// From when both ranks of a tied weight have started to exchange its gradients until they are added.
  Seconds tied_exchange{0.0};
  /// From when the last rank has its norms until all ranks have all norms.
  Seconds norm_exchange{0.0};
  /// Of each stage's segments. Empty: equal shares, and moving them takes no time.
  std::vector<std::vector<SegmentTimes>> segments{};

  /// Those of one stage. Not checked: there is one.
  const StageTimes& of(int32_t stage) const {
    return stages[stages.size() == 1 ? 0 : static_cast<size_t>(stage)];
  }
  bool has_exchanges() const { return std::ranges::any_of(stages, &StageTimes::has_exchange); }
  /// That of one of a stage's `count` segments. Not checked: there is one.
  SegmentTimes of_segment(int32_t stage, int32_t segment, int32_t count) const {
    if (segments.empty()) return {.share = 1.0 / count};
    return segments[static_cast<size_t>(stage)][static_cast<size_t>(segment)];
  }

  friend bool operator==(const Durations&, const Durations&) = default;
};

struct Interval {
  Seconds start{0.0};
  Seconds end{0.0};

  friend bool operator==(const Interval&, const Interval&) = default;
};

struct Simulation {
  /// One for each action, at the same rank and position as in the schedule.
  std::vector<std::vector<Interval>> ranks;
  /// From the first start on any rank to the last end of a compute action on any rank.
  Seconds step_time{0.0};
  /// The longest rank's time from the start of its own first compute action to the end of its own last one.
  Seconds longest_span{0.0};
  /// (longest_span - busiest) / longest_span, where busiest is the most time that a rank computes: with equal
  /// stages m (F + B + W), so that this is the bubble rate of the zero-bubble paper. 0 if nothing takes time.
  double bubble_rate = 0.0;
  /// Per rank; see CheckReport.
  std::vector<int32_t> peak_live_activations;

  friend bool operator==(const Simulation&, const Simulation&) = default;
};

/// Runs `schedule` on a clock that starts at 0. Each rank runs its actions in order, each as soon as it can:
///  - a compute action starts when the tensor it takes from another stage is there: `communication` after it
///    was sent, or at once where both stages are on one rank. Without messages a result is sent when it is
///    made;
///  - an action with a W in hand takes as long as alone, and longer by what W exceeds the action's exchange;
///  - sending and posting a receive take no time and hold nothing up, so when a receive is posted does not
///    matter;
///  - a wait for a send ends when its message has arrived;
///  - WAIT_REDUCE_TIED ends `tied_exchange` after both ranks' REDUCE_TIED, at once where both stages are on
///    one rank; WAIT_NORM ends `norm_exchange` after the last rank's NORM; UPDATE takes its stage's time,
///    REDUCE_TIED and NORM none;
///  - GATHER, REDUCE and REDUCE_DP take no time of their rank's: what they start runs in order, over each
///  axis
///    after the one before it, for as long as its segment's times say, and their waits end with it. All data
///    ranks do the same at the same time, so one pipeline stands for all.
/// Time and memory grow with the number of actions: 32 bytes each besides the schedule.
/// Throws ConfigError if the schedule is not valid or gets stuck, if there are neither 1 nor stages()
/// durations, or if one is negative or not finite. Source of the definitions: Qi et al. 2023,
/// arXiv:2401.10241, section 5 and tables 5 and 9.
Simulation simulate(const Schedule& schedule, const Durations& durations);

/// Throws ConfigError if there are neither 1 nor stages() durations, if segments are given and not those of
/// `schedule`, if a time is negative or not finite, or if an exchange takes longer than what it is a part of.
void validate(const Durations& durations, const PipelineShape& shape);
void validate(const Durations& durations, const Schedule& schedule);

/// Computes step_time, longest_span and bubble_rate from result.ranks, simulated or measured, on a clock
/// whose 0 is the first start. Not checked: there is one interval for each action of `schedule`.
void summarise(const Schedule& schedule, Simulation& result);

}  // namespace braid::schedule
