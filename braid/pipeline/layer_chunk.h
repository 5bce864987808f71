// A slice of the model on one rank.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "braid/layers/layer.h"
#include "braid/pipeline/chunk.h"

namespace braid::pipeline {

/// Runs the layers of one chunk. Does not own them.
class LayerChunk final : public Chunk {
 public:
  /// The chunk ends the model if the last of `layers` is a LossLayer. They must outlive this.
  explicit LayerChunk(std::span<const std::unique_ptr<layers::Layer>> layers);

  at::Tensor forward(int32_t id, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                     layers::Loss& loss) override;
  at::Tensor evaluate(const at::Tensor& x, const at::Tensor& labels, layers::Loss& loss) override;
  at::Tensor backward_input(int32_t id, at::Tensor dy) override;
  void backward_weight(int32_t id) override;

  /// Layer by layer, from the last to the first: what a layer keeps between B and W lives only while that
  /// layer runs.
  at::Tensor backward(int32_t id, at::Tensor dy) override;

  int64_t saved_bytes() const override;

 private:
  using SavedLayers = std::vector<std::unique_ptr<layers::Saved>>;
  SavedLayers& saved_of(int32_t id);

  std::span<const std::unique_ptr<layers::Layer>> layers_;
  layers::LossLayer* loss_;  // the last layer, or null
  std::unordered_map<int32_t, SavedLayers> saved_;
};

}  // namespace braid::pipeline
