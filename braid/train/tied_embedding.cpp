#include "braid/train/tied_embedding.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace braid::train {
TiedEmbedding::TiedEmbedding(const RankModel& model, const config::ModelConfig& config, int first_rank,
                             int last_rank, comm::PipelineLink* link)
    : model_(&model), link_(link) {
  if (!config.tie_word_embeddings || (!model.embedding && !model.head)) return;
  if (model.embedding && model.head) {
    place_ = Place::kBothEnds;
    return;
  }
  place_ = model.embedding ? Place::kEmbeddingOnly : Place::kHeadOnly;
  peer_ = model.embedding ? last_rank : first_rank;
  const tensor::Parameter& mine =
      model.embedding ? model.embedding->weight() : model.head->projection().weight();
  received_ = at::empty_like(mine.main_grad);
}

comm::MessageFormat TiedEmbedding::format(const config::ModelConfig& config, at::ScalarType value_dtype) {
  return {.dtype = tensor::main_dtype(value_dtype), .numel = config.vocab_size * config.hidden_size};
}

std::vector<tensor::Parameter*> TiedEmbedding::updated_parameters() const {
  std::vector<tensor::Parameter*> parameters = model_->parameters();
  if (place_ == Place::kBothEnds) std::erase(parameters, &model_->head->projection().weight());
  return parameters;
}

std::vector<tensor::Parameter*> TiedEmbedding::counted_parameters(size_t chunk) const {
  std::vector<tensor::Parameter*> parameters = model_->stages.at(chunk).parameters();
  if (place_ == Place::kBothEnds || place_ == Place::kHeadOnly) {
    std::erase(parameters, &model_->head->projection().weight());
  }
  return parameters;
}

void TiedEmbedding::join_gradients() {
  if (place_ == Place::kUntied) return;
  if (place_ == Place::kBothEnds) {
    tensor::Parameter& head = model_->head->projection().weight();
    model_->embedding->weight().main_grad.add_(head.main_grad);
    head.gradient_started = false;
    return;
  }
  at::Tensor& mine = place_ == Place::kEmbeddingOnly ? model_->embedding->weight().main_grad
                                                     : model_->head->projection().weight().main_grad;
  comm::Pending receive = link_->receive(received_, peer_, comm::MessageKind::kTiedGradient, 0);
  comm::Pending send = link_->send(mine, peer_, comm::MessageKind::kTiedGradient, 0);
  receive.wait([] { return "the other half of the tied embedding's gradient"; });
  send.wait([] { return "the send of the tied embedding's gradient"; });
  mine.add_(received_);  // a + b and b + a are the same bits
}

}  // namespace braid::train
