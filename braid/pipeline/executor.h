// Executes one rank's action list: a plain loop that interprets the schedule.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "braid/comm/pipeline_link.h"
#include "braid/pipeline/chunk.h"
#include "braid/schedule/schedule.h"

namespace braid::pipeline {

/// The tensor that stages pass to one another: [b, s, H] in the compute dtype.
struct ActivationSpec {
  int64_t sequences = 0;
  int64_t sequence_tokens = 0;
  int64_t hidden = 0;
  at::TensorOptions options;
};

/// The input of a step. `microbatches` has one entry per microbatch of the schedule; ranks that hold neither
/// the first nor the last stage may leave its tensors undefined.
struct StepInput {
  std::span<const Microbatch> microbatches;
  double gradient_scale = 1.0;  ///< the gradient is that of gradient_scale * (sum of all tokens' losses)
};

/// The times at which a rank ran one action.
struct ActionTimes {
  using TimePoint = std::chrono::steady_clock::time_point;
  TimePoint begin;  ///< the rank reached the action
  TimePoint ready;  ///< its input had arrived and the work began; equal to `begin` if it needs none
  TimePoint end;
};

/// Called for every action of a rank, on the thread that runs it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const schedule::Action& /*action*/) {}
  virtual void after(const schedule::Action& /*action*/, const ActionTimes& /*times*/) {}
};

/// Turns a step's gradients into new weights on one rank, as directed by the schedule's last actions. Called
/// on the thread that runs the list.
class StepEnd {
 public:
  virtual ~StepEnd() = default;

  /// REDUCE_TIED: starts exchanging the gradient of the weight that chunk `chunk` shares with another stage.
  virtual void reduce_tied(int32_t chunk) = 0;
  virtual void wait_reduce_tied(int32_t chunk) = 0;

  /// NORM: the rank's gradients are complete, except for a tied weight that counts on another rank. `losses`
  /// as Executor::run returns them.
  virtual void norm(std::span<const layers::Loss> losses) = 0;
  virtual void wait_norm() = 0;

  /// UPDATE of a chunk, or of one segment of it.
  virtual void update(int32_t chunk, int32_t segment) = 0;
};

/// Moves values and gradients of segments among data ranks, as directed by the schedule. Called on the thread
/// that runs the list.
class SegmentActions {
 public:
  virtual ~SegmentActions() = default;

  /// GATHER, RELEASE, REDUCE, REDUCE_DP and their waits.
  virtual void perform(const schedule::Action& action) = 0;

  /// Called before a compute action that writes weight gradients of `segment` of chunk `chunk`, or of all.
  virtual void prepare_gradients(int32_t chunk, int32_t segment) = 0;
};

class Executor {
 public:
  struct Options {
    schedule::Schedule schedule;         ///< with communication placed; `check`ed
    int32_t rank = 0;                    ///< in the pipeline
    std::vector<Chunk*> chunks;          ///< of this rank, by local chunk number; they must outlive this
    comm::PipelineLink* link = nullptr;  ///< null only if the pipeline has one rank
    StepEnd* step_end = nullptr;  ///< null: the end of the step is skipped, as when there are no weights
    SegmentActions* segments = nullptr;  ///< null only if the schedule has no data axes
  };
  explicit Executor(Options options);

  /// Sets the observer of the following runs, or none if null. It must outlive them.
  void observe(Observer* observer) { observer_ = observer; }

  /// Runs the rank's list once. Returns the loss of each microbatch if this rank has the head, and zeros
  /// otherwise. Collective over the pipeline. Throws CommError naming the action if a message does not arrive
  /// in time.
  std::vector<layers::Loss> run(const StepInput& input, const ActivationSpec& activation);

  /// The same with only F and keeping nothing: the schedule must contain only forwards and their messages.
  std::vector<layers::Loss> evaluate(const StepInput& input, const ActivationSpec& activation);

 private:
  enum class Mode { kTrain, kEvaluate };
  /// An incoming tensor: received, or passed by another chunk of this rank.
  struct Incoming {
    at::Tensor tensor;
    comm::Pending pending;
    schedule::Action posted_by;
  };
  std::vector<layers::Loss> walk(Mode mode, const StepInput& input, const ActivationSpec& activation);
  void perform(const schedule::Action& action, Mode mode, const StepInput& input,
               const ActivationSpec& activation, std::vector<layers::Loss>& losses);
  void compute(const schedule::Action& action, Mode mode, const StepInput& input,
               const ActivationSpec& activation, std::vector<layers::Loss>& losses);
  void end_step(const schedule::Action& action, std::span<const layers::Loss> losses);
  void post_receive(const schedule::Action& action, const ActivationSpec& activation);
  void start_send(const schedule::Action& action);
  void end_send(const schedule::Action& action);
  at::Tensor take_input(const schedule::Action& action);
  /// Throws ShapeError unless the output is what stages hand on.
  void put_output(const schedule::Action& action, at::Tensor output, const ActivationSpec& activation);

  Options options_;
  Observer* observer_ = nullptr;
  ActionTimes::TimePoint ready_;                      // when the current action had its input
  std::unordered_map<int64_t, Incoming> incoming_;    // by handover tag
  std::unordered_map<int64_t, at::Tensor> outgoing_;  // computed, not yet sent
  std::unordered_map<int64_t, comm::Pending> sends_;  // started, not yet waited for
};

}  // namespace braid::pipeline
