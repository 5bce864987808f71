// One optimizer step: the pipeline's forward and backward, the norm of all gradients, clipping, AdamW.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/config/training_options.h"
#include "braid/optim/adamw.h"
#include "braid/optim/loss_scaler.h"
#include "braid/pipeline/executor.h"
#include "braid/report/step_metrics.h"
#include "braid/train/partial_sums.h"
#include "braid/train/rank_model.h"
#include "braid/train/run_plan.h"
#include "braid/train/tied_weight.h"

namespace braid::train {

/// What every rank knows after a step.
struct StepOutcome {
  int64_t step = 0;
  double loss = 0;                         ///< mean over the step's tokens
  double grad_norm = 0;                    ///< before clipping; not finite if the step was skipped
  bool skipped = false;                    ///< float16: gradients overflowed, and no weight was touched
  std::optional<double> loss_scale;        ///< float16: that of this step
  int64_t tokens = 0;                      ///< that carried a loss
  bool stop_requested = false;             ///< by any rank
  std::vector<report::RankMemory> memory;  ///< of every rank, as it was before the update
};

/// Runs steps on one rank. Everything given must outlive it.
///
/// The ranks exchange what makes a step's outcome at its NORM. Where updates wait for it (clipping), it is
/// known at the end of the step. Where they do not, nobody waits for the slowest rank: the outcome is known
/// when the next step has come to its NORM, or by finish().
class TrainingStep final : private pipeline::StepEnd {
 public:
  /// `optimizers` has one for each chunk; `world` is the group of all ranks; `device` is the one whose memory
  /// is reported.
  TrainingStep(const RunPlan& plan, const RankModel& model, const mesh::Coordinates& coordinates,
               PartialSums& partial_sums, TiedWeight& tied, std::span<optim::AdamW> optimizers,
               comm::Communicator& world, c10::Device device);

  /// What the executor of plan.step calls at the end of a step.
  pipeline::StepEnd& step_end() { return *this; }

  /// Step `step`, counted from 1, on `microbatches`. The gradient is that of the mean loss over all tokens
  /// with a label, of all data ranks. Returns the newest outcome that this step made known, its own or the
  /// last one's. Collective over the world: the schedule's messages and one all-gather of kStepExchangeNumel
  /// numbers; without clipping, several data ranks exchange one number more, at the beginning. No barrier.
  /// Throws ConfigError on every rank if a loss or a norm is not a finite number: with clipping before any
  /// weight is touched, without it a step later. In float16 such a step is skipped, and the loss is scaled
  /// less; only where it cannot be is that an error, which names the layer.
  std::optional<StepOutcome> run(pipeline::Executor& executor, int64_t step,
                                 const std::vector<pipeline::Microbatch>& microbatches,
                                 const pipeline::ActivationSpec& activation, bool stop_requested);

  /// The outcome of the last step, if it is not known yet. Collective over the world.
  std::optional<StepOutcome> finish();

 private:
  void reduce_tied(int32_t chunk) override;
  void wait_reduce_tied(int32_t chunk) override;
  void norm(std::span<const layers::Loss> losses) override;
  void wait_norm() override;
  void update(int32_t chunk, int32_t segment) override;

  /// By which gradients are multiplied where only `tokens` of all tokens have a label.
  double correction(int64_t tokens) const;

  /// Waits for the exchange under way and makes the outcome of it.
  StepOutcome collect();
  void require_finite(const StepOutcome& outcome, int64_t overflowed_layer) const;

  /// The last layer of the model, by number, in whose gradients this rank finds a number that is not finite;
  /// -1 if there is none.
  int64_t last_overflowed_layer() const;

  const RunPlan& plan_;
  const RankModel& model_;
  PartialSums& partial_sums_;
  TiedWeight& tied_;
  std::span<optim::AdamW> optimizers_;
  comm::Communicator& world_;
  config::TrainingOptions training_;
  c10::Device device_;
  mesh::Coordinates coordinates_;
  bool has_data_axes_;
  bool counts_loss_;                         ///< no other rank has the same losses
  bool counts_squares_;                      ///< no other rank has the same gradients, but for a tied weight
  bool is_scaled_;                           ///< updates wait for the norm
  std::optional<optim::LossScaler> scaler_;  ///< float16
  int64_t data_ranks_;
  double expected_tokens_;  ///< of all data ranks, if all have a label

  int64_t step_ = 0;
  bool stop_requested_ = false;
  std::vector<bool> has_begun_;  ///< by chunk: whether its optimizer has begun the step
  double gradient_scale_ = 1.0;
  comm::Work tokens_;    // of each rank in the step, where updates do not wait for the exchange
  comm::Work exchange_;  // of the step exchanged_
  int64_t exchanged_ = 0;
  std::optional<StepOutcome> known_;
};

/// Tokens with a label in all microbatches; zero where labels are undefined.
int64_t count_labels(const std::vector<pipeline::Microbatch>& microbatches);

}  // namespace braid::train
