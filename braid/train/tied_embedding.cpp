#include "braid/train/tied_embedding.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace braid::train {
namespace {

// Above every tag of a schedule's hand-overs.
constexpr int64_t kGradientTag = comm::kTagCount - 1;

}  // namespace

TiedEmbedding::TiedEmbedding(const model::Stage& stage, const config::ModelConfig& config, int stages,
                             comm::PipelineLink* link)
    : stage_(&stage), link_(link) {
  if (!config.tie_word_embeddings || (!stage.embedding && !stage.head)) return;
  if (stage.embedding && stage.head) {
    place_ = Place::kBothEnds;
    return;
  }
  place_ = stage.embedding ? Place::kEmbeddingOnly : Place::kHeadOnly;
  peer_ = stage.embedding ? stages - 1 : 0;
  const tensor::Parameter& mine =
      stage.embedding ? stage.embedding->weight() : stage.head->projection().weight();
  received_ = at::empty_like(mine.main_grad);
}

comm::MessageFormat TiedEmbedding::format(const config::ModelConfig& config, at::ScalarType value_dtype) {
  return {.dtype = tensor::main_dtype(value_dtype), .numel = config.vocab_size * config.hidden_size};
}

std::vector<tensor::Parameter*> TiedEmbedding::updated_parameters() const {
  std::vector<tensor::Parameter*> parameters = stage_->parameters();
  if (place_ == Place::kBothEnds) std::erase(parameters, &stage_->head->projection().weight());
  return parameters;
}

std::vector<tensor::Parameter*> TiedEmbedding::counted_parameters() const {
  std::vector<tensor::Parameter*> parameters = stage_->parameters();
  if (place_ == Place::kBothEnds || place_ == Place::kHeadOnly) {
    std::erase(parameters, &stage_->head->projection().weight());
  }
  return parameters;
}

void TiedEmbedding::join_gradients() {
  if (place_ == Place::kUntied) return;
  if (place_ == Place::kBothEnds) {
    tensor::Parameter& head = stage_->head->projection().weight();
    stage_->embedding->weight().main_grad.add_(head.main_grad);
    head.gradient_started = false;
    return;
  }
  at::Tensor& mine = place_ == Place::kEmbeddingOnly ? stage_->embedding->weight().main_grad
                                                     : stage_->head->projection().weight().main_grad;
  comm::Pending receive = link_->receive(received_, peer_, comm::MessageKind::kGradient, kGradientTag);
  comm::Pending send = link_->send(mine, peer_, comm::MessageKind::kGradient, kGradientTag);
  receive.wait([] { return "the other half of the tied embedding's gradient"; });
  send.wait([] { return "the send of the tied embedding's gradient"; });
  mine.add_(received_);  // a + b and b + a are the same bits
}

}  // namespace braid::train
