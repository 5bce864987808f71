// A weight that two layers use (tied input and output embeddings), wherever the pipeline is cut.
#pragma once

#include <optional>
#include <vector>

#include "braid/comm/pipeline_link.h"
#include "braid/train/rank_model.h"
#include "braid/train/run_plan.h"

namespace braid::train {

/// Adds the two main gradients of a tied weight, once a step after the last microbatch, of each rank's own
/// part: each layer's sums its own microbatches and data ranks, then one addition joins them. On one rank the
/// first layer's parameter gets the sum and is the only one updated; on two ranks both get the same sum and
/// are updated alike. So the numbers do not depend on the cut.
class TiedWeight {
 public:
  /// Does nothing where `plan` has no tied weight or `rank` holds none of its layers. `link` must carry the
  /// plan's format of it between the two ranks. The model and the link must outlive this.
  TiedWeight(RankModel& model, const RunPlan& plan, int32_t rank, comm::PipelineLink* link);

  /// Whether the parameter counts in the gradient norm and in files: a tied pair once, with its first layer.
  bool counts(const tensor::Parameter& parameter) const;

  /// Begins to exchange the gradients, once this rank's is complete. Collective over the ranks that hold the
  /// weight: one message of the whole gradient each way.
  void start();

  /// Returns when the parameters that are updated have the sum.
  void finish();

 private:
  RankModel* model_;
  comm::PipelineLink* link_;
  tensor::Segment* mine_ = nullptr;  // where the other half is on another rank
  bool is_first_ = false;
  int peer_ = 0;
  at::Tensor received_;
  comm::Pending receive_, send_;
};

}  // namespace braid::train
