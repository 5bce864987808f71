#include "braid/layers/head.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/kernels/cross_entropy.h"
#include "braid/kernels/gemm.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

std::vector<const at::Tensor*> HeadSaved::tensors() const {
  std::vector<const at::Tensor*> all = norm.tensors();
  all.push_back(&dnormed);
  return all;
}

Head::Head(const Options& options)
    : logits_bytes_(options.logits_bytes),
      norm_({.name = options.norm_name, .hidden = options.hidden, .eps = options.norm_eps}),
      projection_({tensor::whole_tensor(options.name, {options.vocabulary, options.hidden})}) {
  projection_.weight().gradient_in_forward = true;
}

at::Tensor Head::forward(const at::Tensor& x, Saved* saved) {
  require<InternalError>(saved == nullptr,
                         "Head::forward returns logits and keeps nothing: use Head::loss for training");
  return projection_.forward(norm_.forward(x, nullptr), nullptr);
}

Loss Head::loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale, Saved* saved_base) {
  auto* saved = static_cast<HeadSaved*>(saved_base);
  const at::Tensor normed = as_rows(norm_.forward(x, saved ? &saved->norm : nullptr));
  const at::Tensor targets = labels.reshape(-1);
  const at::Tensor& weight = projection_.weight().value;
  const int64_t rows = normed.size(0);
  const int64_t row_bytes = weight.size(0) * weight.element_size();
  const int64_t chunk_rows = std::clamp<int64_t>(logits_bytes_ / row_bytes, 1, rows);

  at::Tensor dnormed = saved ? at::empty_like(normed) : at::Tensor();
  Loss total;
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    const at::Tensor chunk = normed.narrow(0, begin, count);
    const at::Tensor logits = kernels::linear(chunk, weight);
    const at::Tensor chunk_targets = targets.narrow(0, begin, count);
    kernels::LossSum sum;
    if (saved) {
      sum = kernels::softmax_cross_entropy_(logits, chunk_targets, gradient_scale);
      kernels::linear_backward_input(logits, weight, dnormed.narrow(0, begin, count));
      kernels::accumulate_weight_gradient(logits, chunk, projection_.weight().main_grad,
                                          start_gradient(projection_.weight()));
    } else {
      sum = kernels::softmax_cross_entropy_loss(logits, chunk_targets);
    }
    total.sum += sum.sum;
    total.tokens += sum.count;
  }
  if (saved) saved->dnormed = from_rows(dnormed, x);
  return total;
}

at::Tensor Head::backward_input(const at::Tensor&, Saved& saved) {
  auto& kept = static_cast<HeadSaved&>(saved);
  at::Tensor dx = norm_.backward_input(kept.dnormed, kept.norm);
  kept.dnormed.reset();
  return dx;
}

void Head::backward_weight(Saved& saved) { norm_.backward_weight(static_cast<HeadSaved&>(saved).norm); }

void Head::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  norm_.append_parameters(parameters);
  projection_.append_parameters(parameters);
}

}  // namespace braid::layers
