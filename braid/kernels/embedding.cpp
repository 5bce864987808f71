#include "braid/kernels/embedding.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

void check_tokens(const at::Tensor& tokens, const at::Tensor& table) {
  require<ShapeError>(tokens.defined() && tokens.dim() == 1, "tokens must have one dimension, got ",
                      describe(tokens));
  require_tensor(tokens, "tokens", tokens.sizes(), at::kLong, table);
  if (!tokens.is_cpu()) return;
  const int64_t* token = tokens.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    require<DataError>(0 <= token[i] && token[i] < table.size(0), "token id ", token[i], " at position ", i,
                       " is outside the vocabulary of ", table.size(0),
                       ": the data was made with another tokenizer, or vocab_size is too small");
  }
}

}  // namespace

at::Tensor embedding(const at::Tensor& tokens_T, const at::Tensor& weight_VH) {
  require_matrix(weight_VH, "weight");
  check_tokens(tokens_T, weight_VH);
  return at::index_select(weight_VH, 0, tokens_T);
}

void embedding_backward(const at::Tensor& tokens_T, const at::Tensor& dy_TH, const at::Tensor& main_grad_VH,
                        Accumulate mode) {
  require_matrix(dy_TH, "dy");
  require_matrix(main_grad_VH, "main_grad");
  require_tensor(main_grad_VH, "main_grad", {main_grad_VH.size(0), dy_TH.size(1)}, wide_dtype(dy_TH), dy_TH);
  check_tokens(tokens_T, main_grad_VH);
  require_tensor(tokens_T, "tokens", {dy_TH.size(0)}, at::kLong, dy_TH);
  if (cpu::handles(dy_TH)) {
    cpu::embedding_backward(tokens_T, dy_TH, main_grad_VH, mode);
  } else {
    aten::embedding_backward(tokens_T, dy_TH, main_grad_VH, mode);
  }
}

}  // namespace braid::kernels
