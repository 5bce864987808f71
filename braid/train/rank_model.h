// The part of the model that one rank holds: a stage for each of its chunks.
#pragma once

#include <vector>

#include "braid/config/model_config.h"
#include "braid/model/llama.h"
#include "braid/train/pipeline_plan.h"

namespace braid::train {

struct RankModel {
  std::vector<model::Stage> stages;        ///< by chunk, which is the order of their places in the model
  layers::Embedding* embedding = nullptr;  ///< in one of the stages, or null
  layers::Head* head = nullptr;            ///< in one of the stages, or null

  std::vector<tensor::Parameter*> parameters() const;
};

/// The stages that `plan` puts on pipeline rank `rank`, with undefined weights. A tied model's head shares
/// the embedding's memory where both are on the rank.
RankModel make_rank_model(const config::ModelConfig& config, const PipelinePlan& plan, int32_t rank,
                          at::TensorOptions options);

}  // namespace braid::train
