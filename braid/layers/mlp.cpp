#include "braid/layers/mlp.h"

#include <ATen/ATen.h>

#include "braid/kernels/swiglu.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

using tensor::whole_tensor;

std::vector<const at::Tensor*> MlpSaved::tensors() const {
  std::vector<const at::Tensor*> all = {&gate_up};
  for (const auto& part : {norm.tensors(), gate_up_product.tensors(), down_product.tensors()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Mlp::Mlp(const Options& options)
    : norm_({.name = options.name + ".post_attention_layernorm.weight",
             .hidden = options.hidden,
             .eps = options.norm_eps}),
      gate_up_({whole_tensor(options.name + ".mlp.gate_proj.weight", {options.intermediate, options.hidden}),
                whole_tensor(options.name + ".mlp.up_proj.weight", {options.intermediate, options.hidden})},
               options.name + ".mlp.gate_up_proj.weight"),
      down_({whole_tensor(options.name + ".mlp.down_proj.weight", {options.hidden, options.intermediate})}) {}

at::Tensor Mlp::forward(const at::Tensor& x, Saved* saved) {
  auto* kept = static_cast<MlpSaved*>(saved);
  const at::Tensor normed = norm_.forward(x, kept ? &kept->norm : nullptr);
  const at::Tensor gate_up = as_rows(gate_up_.forward(normed, kept ? &kept->gate_up_product : nullptr));
  if (kept) kept->gate_up = gate_up;
  return down_.forward(from_rows(kernels::swiglu(gate_up), x), nullptr).add_(x);
}

at::Tensor Mlp::backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  const at::Tensor dactivation = down_.backward_input(dy, kept.down_product);
  const at::Tensor activation = kernels::swiglu_backward_(as_rows(dactivation), kept.gate_up);
  kept.down_product.x = from_rows(activation, dy);
  const at::Tensor dgate_up = from_rows(kept.gate_up, dy);  // gate_up's storage holds its gradient now
  kept.gate_up.reset();
  const at::Tensor dnormed = gate_up_.backward_input(dgate_up, kept.gate_up_product);
  return norm_.backward_input_plus(dnormed, dy, kept.norm);
}

void Mlp::backward_weight(Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  down_.backward_weight(kept.down_product);
  gate_up_.backward_weight(kept.gate_up_product);
  norm_.backward_weight(kept.norm);
}

void Mlp::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  norm_.append_parameters(parameters);
  gate_up_.append_parameters(parameters);
  down_.append_parameters(parameters);
}

}  // namespace braid::layers
