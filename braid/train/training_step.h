// One optimizer step: the pipeline's forward and backward, the norm of all gradients, clipping, AdamW.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/optim/adamw.h"
#include "braid/optim/learning_rate.h"
#include "braid/pipeline/executor.h"
#include "braid/report/step_metrics.h"
#include "braid/train/pipeline_plan.h"
#include "braid/train/rank_model.h"
#include "braid/train/tied_weight.h"

namespace braid::train {

/// What every rank knows after a step.
struct StepOutcome {
  double loss = 0;                         ///< mean over the step's tokens
  double grad_norm = 0;                    ///< before clipping
  int64_t tokens = 0;                      ///< that carried a loss
  bool stop_asked = false;                 ///< by any rank
  std::vector<report::RankMemory> memory;  ///< of every rank, as it was before the update
};

struct TrainingStepOptions {
  optim::LearningRateCurve curve;
  double max_grad_norm = 1.0;  ///< 0 turns clipping off
  c10::Device device = c10::Device(c10::kCPU);
};

/// Runs steps on one rank. Everything given must outlive it.
class TrainingStep {
 public:
  /// Collective over `pipeline`: ranks exchange how many parameters each counts in the norm.
  TrainingStep(const PipelinePlan& plan, const RankModel& model, pipeline::Executor& executor,
               TiedWeight& tied, optim::AdamW& adamw, comm::Communicator& pipeline,
               const TrainingStepOptions& options);

  /// Step `step`, counted from 1, on `microbatches`. The gradient is that of the mean loss over all tokens
  /// with a label. Collective over the pipeline: the schedule's messages and one all-gather of a few numbers
  /// per parameter; no barrier. Throws ConfigError, on every rank and before any weight is touched, if the
  /// loss or the norm is not a finite number.
  StepOutcome run(int64_t step, const std::vector<pipeline::Microbatch>& microbatches,
                  const pipeline::ActivationSpec& activation, bool stop_asked);

 private:
  std::vector<at::Tensor> exchange(const std::vector<double>& mine);

  pipeline::Executor& executor_;
  TiedWeight& tied_;
  optim::AdamW& adamw_;
  comm::Communicator& pipeline_;
  TrainingStepOptions options_;
  std::vector<tensor::Parameter*> counted_;  ///< of this rank, stage after stage
  /// Where a stage's norms stand among all that are exchanged.
  struct StageNorms {
    size_t rank = 0;
    int64_t begin = 0;  ///< among the rank's
    int64_t count = 0;
  };
  std::vector<StageNorms> stage_norms_;  ///< of each stage
  int64_t most_norms_ = 0;               ///< of any rank
};

/// Tokens with a label in all microbatches; zero where labels are undefined.
int64_t count_labels(const std::vector<pipeline::Microbatch>& microbatches);

}  // namespace braid::train
