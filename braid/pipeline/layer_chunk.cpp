#include "braid/pipeline/layer_chunk.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"

namespace braid::pipeline {

LayerChunk::LayerChunk(std::span<const std::unique_ptr<layers::Layer>> layers)
    : layers_(layers), loss_(layers.empty() ? nullptr : layers.back()->as_loss_layer()) {}

at::Tensor LayerChunk::forward(int32_t id, const at::Tensor& x, const at::Tensor& labels,
                               double gradient_scale, layers::Loss& loss) {
  SavedLayers& saved = saved_[id];
  require<InternalError>(saved.empty(), "microbatch ", id, " has a second forward while it is in flight");
  at::Tensor activation = x;
  for (const auto& layer : layers_) {
    saved.push_back(layer->make_saved());
    if (layer.get() == loss_) {
      loss = loss_->loss(activation, labels, gradient_scale, saved.back().get());
      return {};
    }
    activation = layer->forward(activation, saved.back().get());
  }
  return activation;
}

at::Tensor LayerChunk::evaluate(const at::Tensor& x, const at::Tensor& labels, layers::Loss& loss) {
  at::Tensor activation = x;
  for (const auto& layer : layers_) {
    if (layer.get() == loss_) {
      loss = loss_->loss(activation, labels, 0.0, nullptr);
      return {};
    }
    activation = layer->forward(activation, nullptr);
  }
  return activation;
}

at::Tensor LayerChunk::backward_input(int32_t id, at::Tensor dy) {
  SavedLayers& saved = saved_of(id);
  for (size_t i = layers_.size(); i-- > 0;) dy = layers_[i]->backward_input(dy, *saved[i]);
  return dy;
}

void LayerChunk::backward_weight(int32_t id) {
  SavedLayers& saved = saved_of(id);
  for (size_t i = layers_.size(); i-- > 0;) layers_[i]->backward_weight(*saved[i]);
  saved_.erase(id);
}

at::Tensor LayerChunk::backward(int32_t id, at::Tensor dy) {
  SavedLayers& saved = saved_of(id);
  for (size_t i = layers_.size(); i-- > 0;) {
    dy = layers_[i]->backward(dy, *saved[i]);
    saved[i].reset();
  }
  saved_.erase(id);
  return dy;
}

int64_t LayerChunk::saved_bytes() const {
  int64_t sum = 0;
  for (const auto& [id, saved] : saved_) {
    for (const auto& layer : saved) sum += layer ? layer->bytes() : 0;
  }
  return sum;
}

LayerChunk::SavedLayers& LayerChunk::saved_of(int32_t id) {
  const auto found = saved_.find(id);
  require<InternalError>(found != saved_.end(), "microbatch ", id, " has a backward without a forward");
  return found->second;
}

}  // namespace braid::pipeline
