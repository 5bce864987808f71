// One chunk of a rank, as seen by the executor: runs F, B and W for many microbatches at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/layers/layer.h"

namespace braid::pipeline {

/// One microbatch of data.
struct Microbatch {
  at::Tensor tokens;  ///< [b, s] int64 of a language model, else what its first layer takes; used by the
                      ///< chunk that begins the model
  at::Tensor labels;  ///< [b, s] int64 of a language model, else what its loss takes; -100 where there is no
                      ///< loss; used by the chunk that ends the model
};

class Chunk {
 public:
  virtual ~Chunk() = default;

  /// F of microbatch `id`: keeps what B and W need. Returns the output, or an undefined tensor if the chunk
  /// ends the model; then `loss` is set.
  virtual at::Tensor forward(int32_t id, const at::Tensor& x, const at::Tensor& labels, double gradient_scale,
                             layers::Loss& loss) = 0;

  /// F without keeping anything.
  virtual at::Tensor evaluate(const at::Tensor& x, const at::Tensor& labels, layers::Loss& loss) = 0;

  /// B: the gradient of the chunk's input. `dy` is undefined if the chunk ends the model.
  virtual at::Tensor backward_input(int32_t id, at::Tensor dy) = 0;

  /// W: frees everything that the microbatch held.
  virtual void backward_weight(int32_t id) = 0;

  /// B and W in one.
  virtual at::Tensor backward(int32_t id, at::Tensor dy) = 0;

  /// Bytes held for microbatches between their F and their W.
  virtual int64_t saved_bytes() const = 0;
};

}  // namespace braid::pipeline
