#include "braid/train/rank_model.h"

#include <ATen/ATen.h>

#include <utility>

namespace braid::train {

std::vector<tensor::Parameter*> RankModel::parameters() const {
  std::vector<tensor::Parameter*> all;
  for (const model::Stage& stage : stages) {
    const std::vector<tensor::Parameter*> of_stage = stage.parameters();
    all.insert(all.end(), of_stage.begin(), of_stage.end());
  }
  return all;
}

RankModel make_rank_model(const config::ModelConfig& config, const PipelinePlan& plan, int32_t rank,
                          at::TensorOptions options) {
  RankModel result;
  for (const int32_t stage : plan.stages_of(rank)) {
    model::Stage made = model::make_stage(config, plan.range_of(stage), options);
    if (made.embedding) result.embedding = made.embedding;
    if (made.head) result.head = made.head;
    result.stages.push_back(std::move(made));
  }
  if (config.tie_word_embeddings && result.head) model::tie(*result.head, result.embedding);
  return result;
}

}  // namespace braid::train
