// Tied input and output embeddings, wherever the pipeline is cut.
#pragma once

#include <vector>

#include "braid/comm/communicator.h"
#include "braid/comm/pipeline_link.h"
#include "braid/train/rank_model.h"

namespace braid::train {

/// Adds the two main gradients of a tied model's one matrix, once a step after the last microbatch: head's
/// and embedding's each sum their own microbatches, then one addition joins them. On one stage the
/// embedding's parameter gets the sum and is the only one updated; on two stages both get the same sum and
/// are updated alike. So the numbers do not depend on the cut.
class TiedEmbedding {
 public:
  /// `model` of an untied model, or without either end, has nothing to do. `first_rank` and `last_rank` hold
  /// the model's ends. `link` must carry the format of the gradient between the two (see format()). Both must
  /// outlive this.
  TiedEmbedding(const RankModel& model, const config::ModelConfig& config, int first_rank, int last_rank,
                comm::PipelineLink* link);

  /// What is sent between the model's ends.
  static comm::MessageFormat format(const config::ModelConfig& config, at::ScalarType value_dtype);

  /// The rank's parameters that the optimizer updates: all but a head that shares the embedding's memory.
  std::vector<tensor::Parameter*> updated_parameters() const;

  /// The parameters of chunk `chunk` that count in the gradient norm: a tied pair once, with the embedding.
  std::vector<tensor::Parameter*> counted_parameters(size_t chunk) const;

  /// Call after the step's last weight gradient. Collective over the ranks of the model's ends: one message
  /// of V * H float32 each way.
  void join_gradients();

 private:
  enum class Place { kUntied, kBothEnds, kEmbeddingOnly, kHeadOnly };
  const RankModel* model_;
  Place place_ = Place::kUntied;
  int peer_ = 0;
  comm::PipelineLink* link_;
  at::Tensor received_;
};

}  // namespace braid::train
