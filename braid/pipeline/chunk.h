// A slice of the model on one rank: its layers run F, B and W for many microbatches at a time.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "braid/layers/head.h"
#include "braid/layers/layer.h"

namespace braid::pipeline {

/// One microbatch of data.
struct Microbatch {
  at::Tensor tokens;  ///< [b, s] int64; used by the chunk that holds the embedding
  at::Tensor labels;  ///< [b, s] int64, -100 where there is no loss; used by the chunk that holds the head
};

/// Runs the layers of one chunk. Does not own them.
class Chunk {
 public:
  /// `head` is the last of `layers`, or null where the chunk does not end the model.
  Chunk(std::span<const std::unique_ptr<layers::Layer>> layers, layers::Head* head);

  bool has_head() const { return head_ != nullptr; }

  /// F of microbatch `id`: keeps what B and W need. Returns the output, or an undefined tensor if the chunk
  /// has the head; then `loss` is set.
  at::Tensor forward(int32_t id, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                     layers::Loss& loss);

  /// F without keeping anything.
  at::Tensor evaluate(const at::Tensor& x, const at::Tensor& labels, layers::Loss& loss);

  /// B: the gradient of the chunk's input. `dy` is undefined where the chunk has the head.
  at::Tensor backward_input(int32_t id, at::Tensor dy);

  /// W: frees all that the microbatch held.
  void backward_weight(int32_t id);

  /// B and W layer by layer, from the last to the first: what a layer keeps between B and W lives only while
  /// that layer is at work.
  at::Tensor backward(int32_t id, at::Tensor dy);

  /// Bytes held for microbatches between their F and their W.
  int64_t saved_bytes() const;

 private:
  using SavedLayers = std::vector<std::unique_ptr<layers::Saved>>;
  SavedLayers& saved_of(int32_t id);

  std::span<const std::unique_ptr<layers::Layer>> layers_;
  layers::Head* head_;
  std::unordered_map<int32_t, SavedLayers> saved_;
};

}  // namespace braid::pipeline
