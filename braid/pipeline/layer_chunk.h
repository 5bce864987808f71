// A slice of the model on one rank.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "braid/layers/layer.h"
#include "braid/pipeline/chunk.h"
#include "braid/tensor/tensor_slice.h"

namespace braid::pipeline {

/// Runs the layers of one chunk. Does not own them.
class LayerChunk final : public Chunk {
 public:
  /// `segments` are the layers of each, which together are all. The chunk ends the model if the last of
  /// `layers` is a LossLayer. They must outlive this.
  LayerChunk(std::span<const std::unique_ptr<layers::Layer>> layers, std::vector<tensor::Range> segments);

  at::Tensor forward(Piece piece, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                     layers::Loss& loss) override;
  at::Tensor evaluate(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                      layers::Loss& loss) override;
  at::Tensor backward_input(Piece piece, at::Tensor dy) override;
  void backward_weight(Piece piece) override;

  /// Layer by layer, from the last to the first: what a layer keeps between B and W lives only while that
  /// layer runs.
  at::Tensor backward(Piece piece, at::Tensor dy) override;

  int64_t saved_bytes() const override;

 private:
  class WeightSteps;
  using SavedLayers = std::vector<std::unique_ptr<layers::Saved>>;
  SavedLayers& saved_of(int32_t microbatch);
  /// The layers of a piece.
  tensor::Range layers_of(Piece piece) const;
  /// What the segment before has left for this one.
  at::Tensor take_passing(int32_t microbatch);
  /// `result` if the piece is the last one of its direction; else kept for the next.
  at::Tensor pass_on(Piece piece, bool is_last, at::Tensor result);

  std::span<const std::unique_ptr<layers::Layer>> layers_;
  std::vector<tensor::Range> segments_;
  layers::LossLayer* loss_;  // the last layer, or null
  std::unordered_map<int32_t, SavedLayers> saved_;
  std::unordered_map<int32_t, at::Tensor> passing_;  // between two segments, by microbatch
};

}  // namespace braid::pipeline
