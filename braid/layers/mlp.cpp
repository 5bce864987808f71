#include "braid/layers/mlp.h"

#include <ATen/ATen.h>

#include <utility>

#include "braid/kernels/swiglu.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

namespace {

/// Rows [begin, end) of gate_proj or up_proj.
tensor::TensorSlice rows_of(const Mlp::Options& options, const char* tensor) {
  tensor::TensorSlice slice =
      tensor::whole_tensor(options.name + tensor, {options.intermediate, options.hidden});
  slice.part[0] = equal_part(options.intermediate, options.place, "intermediate_size");
  return slice;
}

/// Columns [begin, end) of down_proj.
tensor::TensorSlice down_columns(const Mlp::Options& options) {
  tensor::TensorSlice slice =
      tensor::whole_tensor(options.name + ".mlp.down_proj.weight", {options.hidden, options.intermediate});
  slice.part[1] = equal_part(options.intermediate, options.place, "intermediate_size");
  return slice;
}

}  // namespace

std::vector<const at::Tensor*> MlpSaved::tensors() const {
  std::vector<const at::Tensor*> all = {&gate_up, &residual};
  for (const auto& part :
       {norm.tensors(), gate_up_product.tensors(), down_product.tensors(), summing.tensors()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  if (gathered) {
    for (const auto& part : {gathered->dy.tensors(), gathered->x.tensors()})
      all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Mlp::Mlp(const Options& options)
    : savings_(options.savings),
      mp_(options.place),
      norm_({.name = options.name + ".post_attention_layernorm.weight",
             .hidden = options.hidden,
             .eps = options.norm_eps,
             .place = options.place}),
      gate_up_({rows_of(options, ".mlp.gate_proj.weight"), rows_of(options, ".mlp.up_proj.weight")},
               options.name + ".mlp.gate_up_proj.weight"),
      down_({down_columns(options)}) {}

at::Tensor Mlp::forward(const at::Tensor& x, Saved* saved) {
  return from_rows(begin_output(x, static_cast<MlpSaved*>(saved)).wait(), x).add_(x);
}

void Mlp::begin_forward(const at::Tensor& x, Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  kept.summing = begin_output(x, &kept);
  kept.residual = x;
}

at::Tensor Mlp::end_forward(Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  const at::Tensor x = std::exchange(kept.residual, {});
  return from_rows(kept.summing.wait(), x).add_(x);
}

PendingRows Mlp::begin_output(const at::Tensor& x, MlpSaved* kept) {
  return mp_.sum(down_.product(kernels::swiglu(gate_and_up(x, kept))));
}

void Mlp::recompute(const at::Tensor& x, Saved& saved) { gate_and_up(x, static_cast<MlpSaved*>(&saved)); }

at::Tensor Mlp::gate_and_up(const at::Tensor& x, MlpSaved* kept) {
  const at::Tensor normed = as_rows(norm_.forward(x, kept ? &kept->norm : nullptr));
  const at::Tensor gate_up = gate_up_.product(mp_.gather(normed).wait());
  if (kept) {
    kept->gate_up_product.x = normed;
    kept->gate_up = gate_up;
  }
  return gate_up;
}

at::Tensor Mlp::backward_input(const at::Tensor& dy, Saved& saved) {
  begin_backward_input(dy, saved);
  return end_backward_input(saved);
}

void Mlp::begin_backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  const at::Tensor dy_TH = mp_.gather(as_rows(dy)).wait();
  begin_down(dy_TH, kept);
  begin_gate_up(dy, kept);
  if (!savings_.early_gradients) return;
  down_.add_weight_gradient(dy_TH, kept.down_product.x);  // behind the sum of dnormed
  kept.down_product = {};
}

// From the gradient of down's product, of all rows, to that of gate and up.
void Mlp::begin_down(const at::Tensor& dy_TH, MlpSaved& kept) {
  kept.down_product.x = kernels::swiglu_backward_(down_.input_gradient(dy_TH), kept.gate_up);
  kept.gate_up_product.dy = std::exchange(kept.gate_up, {});  // its storage holds its gradient now
}

// To the gradient of the norm's output, whose sum is started.
void Mlp::begin_gate_up(const at::Tensor& dy, MlpSaved& kept) {
  kept.down_product.dy = as_rows(dy);
  kept.residual = dy;
  kept.summing = mp_.sum(gate_up_.input_gradient(kept.gate_up_product.dy));
}

at::Tensor Mlp::end_backward_input(Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  const at::Tensor dy = std::exchange(kept.residual, {});
  return norm_.backward_input_plus(from_rows(kept.summing.wait(), dy), dy, kept.norm);
}

void Mlp::begin_backward_weight(Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  kept.gathered.emplace();
  if (!savings_.early_gradients) kept.gathered->dy = mp_.gather(kept.down_product.dy);
  kept.gathered->x = mp_.gather(kept.gate_up_product.x);
}

void Mlp::backward_weight(Saved& saved) {
  auto& kept = static_cast<MlpSaved&>(saved);
  if (!kept.gathered) begin_backward_weight(saved);
  auto rows = std::exchange(kept.gathered, std::nullopt);
  if (!savings_.early_gradients) down_.add_weight_gradient(rows->dy.wait(), kept.down_product.x);
  kept.down_product = {};
  gate_up_.add_weight_gradient(kept.gate_up_product.dy, rows->x.wait());
  kept.gate_up_product = {};
  norm_.backward_weight(kept.norm);
}

at::Tensor Mlp::backward(const at::Tensor& dy, Saved& saved) {
  if (!mp_.is_parallel()) return Layer::backward(dy, saved);
  auto& kept = static_cast<MlpSaved&>(saved);
  const at::Tensor dy_TH = mp_.gather(as_rows(dy)).wait();
  begin_down(dy_TH, kept);
  PendingRows normed = mp_.gather(kept.gate_up_product.x);  // in flight during gate and up's product
  begin_gate_up(dy, kept);
  // The sum of dnormed is in flight during the weight gradients.
  down_.add_weight_gradient(dy_TH, kept.down_product.x);
  kept.down_product = {};
  gate_up_.add_weight_gradient(kept.gate_up_product.dy, normed.wait());
  kept.gate_up_product = {};
  at::Tensor dx = end_backward_input(saved);
  norm_.backward_weight(kept.norm);
  return dx;
}

void Mlp::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  norm_.append_parameters(parameters);
  gate_up_.append_parameters(parameters);
  down_.append_parameters(parameters);
}

}  // namespace braid::layers
