// Chunks that wait out their actions' durations instead of computing: real messages, real order, real memory,
// no arithmetic. Many ranks fit on few cores, and a schedule shows its own time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "braid/pipeline/chunk.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::pipeline {

/// The time of one rank whose work is waiting.
///
/// An operating system wakes a sleeper late by a little and never early. Such noise would add up along every
/// chain of actions. So an action begins when its rank's last one was due to end, or when its input was due,
/// and not when the process got to run; the noise of one action then is taken up by the wait of the next.
/// Only what is later than `grace` is no noise but a delay of the run's own making (a message that is held
/// up, a send that blocks, an overloaded machine): it moves all that follows, and is counted.
class EmulatedClock {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = std::chrono::time_point<Clock, std::chrono::duration<double>>;
  using Seconds = schedule::Seconds;

  explicit EmulatedClock(Seconds grace) : grace_(grace), now_(Clock::now()) {}

  /// Starts a step: nothing is due from before.
  void restart();

  /// Waits out an action that takes `duration` and cannot begin before `input_due`. Returns when it was due
  /// to end.
  TimePoint run(Seconds duration, std::optional<TimePoint> input_due);

  /// The due time of the end of the rank's last action.
  TimePoint now() const { return now_; }

  /// Due times of the beginning of the step's first action and the end of its last: the rank's span.
  Seconds span() const { return first_ ? now_ - *first_ : Seconds(0); }

  /// Delays since restart that were more than noise, and the most noise that one action saw.
  Seconds delays() const { return delays_; }
  Seconds noise() const { return noise_; }

 private:
  /// `due`, or the present if that is later than noise explains.
  TimePoint honest(TimePoint due);

  Seconds grace_;
  TimePoint now_;
  std::optional<TimePoint> first_;
  Seconds delays_{0};
  Seconds noise_{0};
};

/// A chunk of an emulated rank. What it hands on is a float64 tensor of the activation's shape whose first
/// element says when it was made; its receiver begins that much later than a message takes. It allocates what
/// it would keep, without touching it.
class EmulatedChunk final : public Chunk {
 public:
  struct Options {
    schedule::StageTimes times;
    schedule::StageMemory memory_bytes{.forward_to_backward = 0, .backward_to_weight = 0};
    schedule::Seconds input_delay{0};     ///< what a message takes, if the chunk's input comes by one
    schedule::Seconds gradient_delay{0};  ///< the same for the gradient of its output
    bool is_first = false;                ///< no stage stands before it
    bool is_last = false;                 ///< no stage stands after it
    int64_t hand_over_numel = 1;
  };
  /// `clock` is shared by the chunks of one rank and must outlive them.
  EmulatedChunk(EmulatedClock& clock, const Options& options) : clock_(clock), options_(options) {}

  at::Tensor forward(int32_t id, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                     layers::Loss& loss) override;
  at::Tensor evaluate(const at::Tensor& x, const at::Tensor& labels, layers::Loss& loss) override;
  at::Tensor backward_input(int32_t id, at::Tensor dy) override;
  void backward_weight(int32_t id) override;
  at::Tensor backward(int32_t id, at::Tensor dy) override;
  int64_t saved_bytes() const override;

 private:
  at::Tensor made(EmulatedClock::TimePoint time) const;
  std::optional<EmulatedClock::TimePoint> due(const at::Tensor& input, schedule::Seconds delay) const;
  at::Tensor take_saved(int32_t id);

  EmulatedClock& clock_;
  Options options_;
  std::unordered_map<int32_t, at::Tensor> saved_;
};

}  // namespace braid::pipeline
