// Executes one rank's action list: a plain loop that interprets what the schedule says.
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

/// The tensor that stages hand to one another: [b, s, H] in the compute dtype.
struct ActivationSpec {
  int64_t sequences = 0;
  int64_t sequence_tokens = 0;
  int64_t hidden = 0;
  at::TensorOptions options;
};

/// What a step starts from. `microbatches` has one entry per microbatch of the schedule; ranks that hold
/// neither the first nor the last stage may leave its tensors undefined.
struct StepInput {
  std::span<const Microbatch> microbatches;
  double gradient_scale = 1.0;  ///< the gradient is that of gradient_scale * (sum of all tokens' losses)
};

/// When a rank ran one action.
struct ActionTimes {
  using TimePoint = std::chrono::steady_clock::time_point;
  TimePoint begin;  ///< the rank came to the action
  TimePoint ready;  ///< its input was there, and the work began; `begin` where it needs none
  TimePoint end;
};

/// Hears of every action of a rank, on the thread that runs it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const schedule::Action& /*action*/) {}
  virtual void after(const schedule::Action& /*action*/, const ActionTimes& /*times*/) {}
};

/// Turns a step's gradients into new weights on one rank, as the schedule's last actions say. Called on the
/// thread that runs the list.
class StepEnd {
 public:
  virtual ~StepEnd() = default;

  /// REDUCE_TIED: starts to exchange the gradient of the weight that chunk `chunk` shares with another stage.
  virtual void reduce_tied(int32_t chunk) = 0;
  virtual void wait_reduce_tied(int32_t chunk) = 0;

  /// NORM: the rank's gradients are complete, but for a tied weight that counts elsewhere. `losses` as
  /// Executor::run returns them.
  virtual void norm(std::span<const layers::Loss> losses) = 0;
  virtual void wait_norm() = 0;

  virtual void update(int32_t chunk) = 0;
};

class Executor {
 public:
  struct Options {
    schedule::Schedule schedule;         ///< with communication placed; `check`ed
    int32_t rank = 0;                    ///< in the pipeline
    std::vector<Chunk*> chunks;          ///< of this rank, by local chunk number; they must outlive this
    comm::PipelineLink* link = nullptr;  ///< null only if the pipeline has one rank
    StepEnd* step_end = nullptr;  ///< null: the end of the step is left out, as where there are no weights
  };
  explicit Executor(Options options);

  /// Who hears of the actions of the runs that follow, or null: nobody. It must outlive them.
  void observe(Observer* observer) { observer_ = observer; }

  /// Runs the rank's list once. Returns the loss of each microbatch if this rank has the head, and zeros
  /// otherwise. Collective over the pipeline. Throws CommError naming the action if a message does not come
  /// in time.
  std::vector<layers::Loss> run(const StepInput& input, const ActivationSpec& activation);

  /// The same with F alone and nothing kept: the schedule must hold forwards and their messages only.
  std::vector<layers::Loss> evaluate(const StepInput& input, const ActivationSpec& activation);

 private:
  enum class Mode { kTrain, kEvaluate };
  /// A tensor on its way in: received, or handed over by another chunk of this rank.
  struct Incoming {
    at::Tensor tensor;
    comm::Pending pending;
    schedule::Action posted_by;
  };
  std::vector<layers::Loss> walk(Mode mode, const StepInput& input, const ActivationSpec& activation);
  void perform(const schedule::Action& action, Mode mode, const StepInput& input,
               const ActivationSpec& activation, std::vector<layers::Loss>& losses);
  void compute(const schedule::Action& action, Mode mode, const StepInput& input,
               std::vector<layers::Loss>& losses);
  void end_step(const schedule::Action& action, std::span<const layers::Loss> losses);
  void post_receive(const schedule::Action& action, const ActivationSpec& activation);
  void start_send(const schedule::Action& action);
  void end_send(const schedule::Action& action);
  at::Tensor take_input(const schedule::Action& action);
  void put_output(const schedule::Action& action, at::Tensor output);

  Options options_;
  Observer* observer_ = nullptr;
  ActionTimes::TimePoint ready_;                      // when the action under way had its input
  std::unordered_map<int64_t, Incoming> incoming_;    // by hand-over tag
  std::unordered_map<int64_t, at::Tensor> outgoing_;  // computed, not yet sent
  std::unordered_map<int64_t, comm::Pending> sends_;  // started, not yet known to be done
};

}  // namespace braid::pipeline
