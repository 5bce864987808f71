// Chunks that wait for their actions' durations instead of computing: real messages, real order, real memory,
// no arithmetic. Many ranks fit on few cores, and the time measured is that of the schedule.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "braid/pipeline/chunk.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::pipeline {

/// The clock of one emulated rank.
///
/// An operating system wakes a sleeping process slightly late and never early. Such noise would add up along
/// every chain of actions. So an action begins when its rank's previous one was due to end, or when its input
/// was due, and not when the process got to run; the wait of the next action then absorbs the noise of the
/// previous one. Only lateness beyond `grace`, a share of the action's duration, is not noise but a real
/// delay (a delayed message, a send that blocks, an overloaded machine): it shifts everything after it, and
/// is counted.
class EmulatedClock {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = std::chrono::time_point<Clock, std::chrono::duration<double>>;
  using Seconds = schedule::Seconds;

  /// Decided by measuring, see docs/decisions/0031-a-grace-in-proportion.md.
  static constexpr double kDefaultGrace = 0.25;

  explicit EmulatedClock(double grace) : grace_(grace), now_(Clock::now()) {}

  /// Starts a step with nothing due from earlier.
  void restart();

  /// Waits for an action that takes `duration` and cannot begin before `input_due`. Returns when it was due
  /// to end. What waits for the last part of an action passes the whole action's duration too.
  TimePoint run(Seconds duration, std::optional<TimePoint> input_due) {
    return run(duration, input_due, duration);
  }
  TimePoint run(Seconds duration, std::optional<TimePoint> input_due, Seconds action);

  /// The due time of the end of the rank's last action.
  TimePoint now() const { return now_; }

  /// Due times of the beginning of the step's first action and the end of its last: the rank's span.
  Seconds span() const { return first_ ? now_ - *first_ : Seconds(0); }

  /// Delays since restart that exceeded noise, and the largest noise of a single action.
  Seconds delays() const { return delays_; }
  Seconds noise() const { return noise_; }

 private:
  /// `due`, or the current time if the lateness exceeds what is noise for an action of this duration.
  TimePoint honest(TimePoint due, Seconds action);

  double grace_;
  TimePoint now_;
  std::optional<TimePoint> first_;
  Seconds delays_{0};
  Seconds noise_{0};
};

/// A chunk of an emulated rank. Its output is a float64 tensor of the activation's shape whose first element
/// is the time at which it was due; the receiver begins later by the duration of a message. It allocates what
/// it would keep, without touching it.
class EmulatedChunk final : public Chunk {
 public:
  struct Options {
    schedule::StageTimes times;
    schedule::StageMemory memory_bytes{.forward_to_backward = 0, .backward_to_weight = 0};
    schedule::Seconds input_delay{0};     ///< the duration of a message, if the chunk's input comes in one
    schedule::Seconds gradient_delay{0};  ///< the same for the gradient of its output
    bool is_first = false;                ///< no stage precedes it
    bool is_last = false;                 ///< no stage follows it
    int64_t hand_over_numel = 1;
  };
  /// `clock` is shared by the chunks of one rank and must outlive them.
  EmulatedChunk(EmulatedClock& clock, const Options& options) : clock_(clock), options_(options) {}

  at::Tensor forward(Piece piece, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                     layers::Loss& loss) override;
  at::Tensor evaluate(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                      layers::Loss& loss) override;
  at::Tensor backward_input(Piece piece, at::Tensor dy) override;
  void backward_weight(Piece piece) override;
  at::Tensor backward(Piece piece, at::Tensor dy) override;
  int64_t saved_bytes() const override;

 private:
  /// Waits for an action that takes `time`, the last part of it an exchange that a W in hand may run behind.
  EmulatedClock::TimePoint run(schedule::Seconds time, schedule::Seconds exchange,
                               std::optional<EmulatedClock::TimePoint> input_due, const WeightInHand& weight);
  at::Tensor made(EmulatedClock::TimePoint time) const;
  std::optional<EmulatedClock::TimePoint> due(const at::Tensor& input, schedule::Seconds delay) const;
  at::Tensor take_saved(int32_t id);

  EmulatedClock& clock_;
  Options options_;
  std::unordered_map<int32_t, at::Tensor> saved_;
};

}  // namespace braid::pipeline
