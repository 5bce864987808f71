// One chunk of a rank, as seen by the executor: runs F, B and W for many microbatches at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/layers/layer.h"
#include "braid/schedule/action.h"

namespace braid::pipeline {

/// One microbatch of data.
struct Microbatch {
  at::Tensor tokens;  ///< [b, s] int64 of a language model, else what its first layer takes; used by the
                      ///< chunk that begins the model
  at::Tensor labels;  ///< [b, s] int64 of a language model, else what its loss takes; -100 where there is no
                      ///< loss; used by the chunk that ends the model
};

class Chunk;

/// A W in hand: see schedule::WeightInHand.
struct WeightInHand {
  Chunk* chunk = nullptr;  ///< of the same kind as the chunk that runs it, perhaps the same; null: none
  int32_t microbatch = 0;
};

/// What one call works on.
struct Piece {
  int32_t microbatch = 0;
  int32_t segment = schedule::kAllSegments;  ///< of the chunk: they come in order, from the first to the last
                                             ///< in F and back in B and W
  /// Of forward and backward_input: W of the same segment that runs within, a layer of it during the exchange
  /// of each layer, and what is left at the end. Equal to calling backward_weight.
  WeightInHand weight{};
};

class Chunk {
 public:
  virtual ~Chunk() = default;

  /// F: keeps what B and W need. `x` is undefined but for the first segment. Returns the output, or an
  /// undefined tensor but for the last segment and if the chunk ends the model; then `loss` is set.
  virtual at::Tensor forward(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                             double gradient_scale, layers::Loss& loss) = 0;

  /// F without keeping anything for B and W.
  virtual at::Tensor evaluate(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                              layers::Loss& loss) = 0;

  /// B: the gradient of the chunk's input, with its first segment; else an undefined tensor. `dy` is
  /// undefined but for the last segment, and if the chunk ends the model.
  virtual at::Tensor backward_input(Piece piece, at::Tensor dy) = 0;

  /// W: frees everything that the microbatch held.
  virtual void backward_weight(Piece piece) = 0;

  /// B and W in one.
  virtual at::Tensor backward(Piece piece, at::Tensor dy) = 0;

  /// Bytes held for microbatches between their F and their W.
  virtual int64_t saved_bytes() const = 0;
};

}  // namespace braid::pipeline
