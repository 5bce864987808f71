#include "braid/layers/embedding.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/embedding.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {
namespace {

tensor::TensorSlice table_rows(const Embedding::Options& options) {
  tensor::TensorSlice slice = tensor::whole_tensor(options.name, {options.vocabulary, options.hidden});
  slice.part[0] = vocabulary_part(options.vocabulary, options.place);
  return slice;
}

void check_tokens(const at::Tensor& tokens, int64_t vocabulary) {
  const at::Tensor outside = tokens.lt(0).logical_or_(tokens.ge(vocabulary));
  if (!tokens.is_cpu()) {
    at::_assert_async(outside.any().logical_not());
    return;
  }
  const at::Tensor positions = outside.nonzero();
  if (positions.numel() == 0) return;
  const auto position = positions[0][0].item<int64_t>();
  throw DataError(cat("token id ", tokens[position].item<int64_t>(), " at position ", position,
                      " is outside the vocabulary of ", vocabulary,
                      ": the data was made with another tokenizer, or vocab_size is too small"));
}

}  // namespace

Embedding::Embedding(const Options& options)
    : mp_(options.place),
      vocabulary_(options.vocabulary),
      begin_(vocabulary_part(options.vocabulary, options.place).begin),
      weight_(tensor::declare_parameter({table_rows(options)})) {}

at::Tensor Embedding::forward(const at::Tensor& tokens, Saved* saved) {
  const at::Tensor tokens_T = tokens.view(-1);
  const int64_t own_tokens = mp_.own_sequence_tokens(tokens.size(1));
  const at::Tensor rows = mp_.is_parallel() ? mp_.sum(partial_rows(tokens_T)).wait()
                                            : kernels::embedding(tokens_T, weight_.value);
  if (saved != nullptr) static_cast<EmbeddingSaved&>(*saved).tokens = tokens;
  return rows.view({tokens.size(0), own_tokens, rows.size(1)});
}

// The rows of this rank's tokens, zeros for all others.
at::Tensor Embedding::partial_rows(const at::Tensor& tokens_T) const {
  check_tokens(tokens_T, vocabulary_);
  const at::Tensor row = tokens_T - begin_;
  const at::Tensor elsewhere = row.lt(0).logical_or_(row.ge(weight_.sizes().front()));
  return kernels::embedding(row.masked_fill_(elsewhere, 0), weight_.value)
      .masked_fill_(elsewhere.unsqueeze(1), 0);
}

at::Tensor Embedding::backward_input(const at::Tensor& dy, Saved& saved) {
  static_cast<EmbeddingSaved&>(saved).dy = dy;
  return {};
}

void Embedding::backward_weight(Saved& saved) {
  auto& kept = static_cast<EmbeddingSaved&>(saved);
  PendingRows dy = mp_.gather(as_rows(kept.dy));
  at::Tensor row = kept.tokens.view(-1);
  if (mp_.is_parallel()) {
    row = row - begin_;
    const at::Tensor positions = row.ge(0).logical_and_(row.lt(weight_.sizes().front())).nonzero().squeeze(1);
    kernels::embedding_backward(row.index_select(0, positions), dy.wait().index_select(0, positions),
                                weight_.main_grad, start_gradient(weight_));
  } else {
    kernels::embedding_backward(row, dy.wait(), weight_.main_grad, start_gradient(weight_));
  }
  kept = {};
}

}  // namespace braid::layers
