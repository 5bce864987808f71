#include "braid/layers/head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"
#include "braid/kernels/cross_entropy.h"
#include "braid/kernels/gemm.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {
namespace {

tensor::TensorSlice projection_rows(const Head::Options& options) {
  tensor::TensorSlice slice = tensor::whole_tensor(options.name, {options.vocabulary, options.hidden});
  slice.part[0] = vocabulary_part(options.vocabulary, options.place);
  return slice;
}

}  // namespace

std::vector<const at::Tensor*> HeadSaved::tensors() const {
  std::vector<const at::Tensor*> all = norm.tensors();
  all.push_back(&dnormed);
  return all;
}

Head::Head(const Options& options)
    : options_(options),
      mp_(options.place),
      norm_({.name = options.norm_name,
             .hidden = options.hidden,
             .eps = options.norm_eps,
             .place = options.place}),
      projection_({projection_rows(options)}) {
  projection_.weight().gradient_in_forward = true;
}

int64_t Head::rows_per_block(const Options& options, int64_t rows, int64_t element_bytes) {
  const int64_t blocks = options.place.mp_degree > 1 ? 2 : 1;
  const int64_t row_bytes = vocabulary_part_size(options.vocabulary, options.place.mp_degree) * element_bytes;
  return std::clamp<int64_t>(options.logits_bytes / blocks / row_bytes, 1, rows);
}

at::Tensor Head::forward(const at::Tensor& x, Saved* saved) {
  require<InternalError>(saved == nullptr,
                         "Head::forward returns logits and keeps nothing: use Head::loss for training");
  const at::Tensor normed = as_rows(norm_.forward(x, nullptr));
  at::Tensor logits = projection_.product(mp_.gather(normed).wait());
  if (mp_.is_parallel()) {
    const int64_t rows = logits.size(0);
    const int64_t part = vocabulary_part_size(options_.vocabulary, mp_.degree());
    // Only the last rank's part may be smaller.
    const at::Tensor padded = at::constant_pad_nd(logits, {0, part - logits.size(1)}).contiguous();
    logits = mp_.all_gather(padded).wait().transpose(0, 1).reshape({rows, part * mp_.degree()});
    logits = logits.narrow(1, 0, options_.vocabulary).contiguous();
  }
  return logits.view({x.size(0), mp_.sequence_tokens(x), logits.size(1)});
}

Loss Head::loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale, Saved* saved_base) {
  auto* saved = static_cast<HeadSaved*>(saved_base);
  const at::Tensor targets = labels.reshape(-1);
  if (mp_.is_parallel()) return loss_of_parts(x, targets, gradient_scale, saved);
  const at::Tensor normed = as_rows(norm_.forward(x, saved ? &saved->norm : nullptr));
  const at::Tensor& weight = projection_.weight().value;
  const int64_t rows = normed.size(0);
  const int64_t chunk_rows = rows_per_block(options_, rows, weight.element_size());

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

Loss Head::loss_of_parts(const at::Tensor& x, const at::Tensor& targets_T, double gradient_scale,
                         HeadSaved* saved) {
  const at::Tensor own = as_rows(norm_.forward(x, saved ? &saved->norm : nullptr));
  const at::Tensor normed = mp_.gather(own).wait();
  tensor::Parameter& weight = projection_.weight();
  const kernels::VocabularyPart part = {.begin = weight.slices.front().part[0].begin,
                                        .vocabulary = options_.vocabulary};
  const int64_t rows = normed.size(0);
  const int64_t block_rows = rows_per_block(options_, rows, weight.value.element_size());

  struct Block {
    at::Tensor normed, targets, logits;
    comm::Work statistics;  // in progress
  };
  const auto begin_block = [&](int64_t begin) -> Block {
    const int64_t count = std::min(block_rows, rows - begin);
    Block block = {.normed = normed.narrow(0, begin, count),
                   .targets = targets_T.narrow(0, begin, count),
                   .logits = {},
                   .statistics = {}};
    block.logits = kernels::linear(block.normed, weight.value);
    block.statistics = mp_.all_gather(kernels::softmax_part_statistics(block.logits, block.targets, part));
    return block;
  };

  const at::Tensor dnormed = saved ? at::empty_like(normed) : at::Tensor();
  PendingRows own_dnormed;
  Loss total;
  Block next = begin_block(0);
  for (int64_t begin = 0; begin < rows; begin += block_rows) {
    Block block = std::move(next);
    const bool is_last = begin + block_rows >= rows;
    if (!is_last) next = begin_block(begin + block_rows);
    const kernels::WholeSoftmax softmax = kernels::join_softmax_parts(block.statistics.wait(), block.targets);
    total.sum += softmax.loss.sum;
    total.tokens += softmax.loss.count;
    if (!saved) continue;
    kernels::softmax_part_gradient_(block.logits, block.targets, part, softmax.max_sum_2C, gradient_scale);
    kernels::linear_backward_input(block.logits, weight.value,
                                   dnormed.narrow(0, begin, block.logits.size(0)));
    if (is_last) own_dnormed = mp_.sum(dnormed);
    projection_.add_weight_gradient(block.logits, block.normed);
  }
  if (saved) saved->dnormed = from_rows(own_dnormed.wait(), x);
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
