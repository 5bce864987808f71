#include "braid/layers/embedding.h"

#include <ATen/ATen.h>

#include "braid/kernels/embedding.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

Embedding::Embedding(const Options& options)
    : weight_(tensor::declare_parameter(
          {tensor::whole_tensor(options.name, {options.vocabulary, options.hidden})})) {}

at::Tensor Embedding::forward(const at::Tensor& tokens, Saved* saved) {
  if (saved != nullptr) static_cast<EmbeddingSaved&>(*saved).tokens = tokens;
  return from_rows(kernels::embedding(tokens.view(-1), weight_.value), tokens);
}

at::Tensor Embedding::backward_input(const at::Tensor& dy, Saved& saved) {
  static_cast<EmbeddingSaved&>(saved).dy = dy;
  return {};
}

void Embedding::backward_weight(Saved& saved) {
  auto& kept = static_cast<EmbeddingSaved&>(saved);
  kernels::embedding_backward(kept.tokens.view(-1), as_rows(kept.dy), weight_.main_grad,
                              start_gradient(weight_));
  kept = {};
}

}  // namespace braid::layers
