#include "braid/layers/attention.h"

#include <ATen/ATen.h>

#include <utility>

#include "braid/base/error.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {
namespace {

tensor::Range query_part(const Attention::Options& options) {
  return equal_part(options.heads, options.place, "num_attention_heads");
}

/// The rows of q_proj, k_proj or v_proj of the heads in `part`, of `heads`.
tensor::TensorSlice rows_of(const Attention::Options& options, const char* tensor, int64_t heads,
                            const tensor::Range& part) {
  tensor::TensorSlice slice =
      tensor::whole_tensor(options.name + tensor, {heads * options.head_dim, options.hidden});
  slice.part[0] = {part.begin * options.head_dim, part.end * options.head_dim};
  return slice;
}

/// The columns of o_proj of this rank's heads.
tensor::TensorSlice out_columns(const Attention::Options& options) {
  const tensor::Range part = query_part(options);
  tensor::TensorSlice slice = tensor::whole_tensor(options.name + ".self_attn.o_proj.weight",
                                                   {options.hidden, options.heads * options.head_dim});
  slice.part[1] = {part.begin * options.head_dim, part.end * options.head_dim};
  return slice;
}

std::vector<Linear> make_projections(const Attention::Options& options) {
  const KeyValueHeads key_values = key_value_part(options.key_value_heads, options.place);
  const tensor::TensorSlice q =
      rows_of(options, ".self_attn.q_proj.weight", options.heads, query_part(options));
  const tensor::TensorSlice k =
      rows_of(options, ".self_attn.k_proj.weight", options.key_value_heads, key_values.part);
  const tensor::TensorSlice v =
      rows_of(options, ".self_attn.v_proj.weight", options.key_value_heads, key_values.part);
  if (key_values.copies == 1) return {Linear({q, k, v}, options.name + ".self_attn.qkv_proj.weight")};
  Linear kv({k, v}, options.name + ".self_attn.kv_proj.weight");
  // Each copy has the gradient of its own query heads only.
  kv.weight().copies = kv.weight().partial_over = key_values.copies;
  return {Linear({q}), std::move(kv)};
}

}  // namespace

std::vector<const at::Tensor*> AttentionSaved::tensors() const {
  std::vector<const at::Tensor*> all = {&qkv, &residual};
  for (const auto& part : {norm.tensors(), qkv_product.tensors(), out_product.tensors(), attention.tensors(),
                           summing.tensors()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  if (gathered) {
    for (const auto& part : {gathered->dy.tensors(), gathered->x.tensors()})
      all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Attention::Attention(const Options& options)
    : mp_(options.place),
      heads_(query_part(options).size()),
      key_value_heads_(key_value_part(options.key_value_heads, options.place).part.size()),
      head_dim_(options.head_dim),
      rope_(options.rope),
      savings_(options.savings),
      norm_({.name = options.name + ".input_layernorm.weight",
             .hidden = options.hidden,
             .eps = options.norm_eps,
             .place = options.place}),
      projections_(make_projections(options)),
      out_({out_columns(options)}) {}

Attention::Heads Attention::heads_of(const at::Tensor& qkv, const at::Tensor& own) const {
  const at::Tensor heads =
      qkv.view({own.size(0), mp_.sequence_tokens(own), heads_ + 2 * key_value_heads_, head_dim_})
          .transpose(1, 2);
  return {heads.narrow(1, 0, heads_), heads.narrow(1, heads_, key_value_heads_),
          heads.narrow(1, heads_ + key_value_heads_, key_value_heads_)};
}

kernels::RopeShape Attention::rope_shape(const at::Tensor& own) const {
  const int64_t tokens = mp_.sequence_tokens(own);
  require<ShapeError>(tokens <= rope_.cos_Sd.size(0), "a sequence of ", tokens, " tokens is longer than the ",
                      rope_.cos_Sd.size(0), " positions of the model (max_position_embeddings)");
  return {.seq = tokens, .query_heads = heads_, .key_value_heads = key_value_heads_};
}

// [T, (heads + 2 * key-value heads) * d]
at::Tensor Attention::project(const at::Tensor& normed_TH) const {
  if (projections_.size() == 1) return projections_.front().product(normed_TH);
  return at::cat({projections_[0].product(normed_TH), projections_[1].product(normed_TH)}, 1);
}

at::Tensor Attention::project_backward(const at::Tensor& dqkv) const {
  if (projections_.size() == 1) return projections_.front().input_gradient(dqkv);
  const std::vector<at::Tensor> parts =
      dqkv.split_with_sizes({heads_ * head_dim_, 2 * key_value_heads_ * head_dim_}, 1);
  return projections_[0]
      .input_gradient(parts[0].contiguous())
      .add_(projections_[1].input_gradient(parts[1].contiguous()));
}

void Attention::add_projection_gradient(const at::Tensor& dqkv, const at::Tensor& normed_TH) {
  if (projections_.size() == 1) return projections_.front().add_weight_gradient(dqkv, normed_TH);
  const std::vector<at::Tensor> parts =
      dqkv.split_with_sizes({heads_ * head_dim_, 2 * key_value_heads_ * head_dim_}, 1);
  for (size_t i = 0; i < parts.size(); ++i)
    projections_[i].add_weight_gradient(parts[i].contiguous(), normed_TH);
}

at::Tensor Attention::rows_of_heads(const at::Tensor& out) const {
  return out.transpose(1, 2).reshape({-1, heads_ * head_dim_});
}

at::Tensor Attention::forward(const at::Tensor& x, Saved* saved) {
  return from_rows(begin_output(x, static_cast<AttentionSaved*>(saved)).wait(), x).add_(x);
}

void Attention::begin_forward(const at::Tensor& x, Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  kept.summing = begin_output(x, &kept);
  kept.residual = x;
}

at::Tensor Attention::end_forward(Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  const at::Tensor x = std::exchange(kept.residual, {});
  return from_rows(kept.summing.wait(), x).add_(x);
}

PendingRows Attention::begin_output(const at::Tensor& x, AttentionSaved* kept) {
  return mp_.sum(out_.product(mix(x, kept)));
}

void Attention::recompute(const at::Tensor& x, Saved& saved) { mix(x, static_cast<AttentionSaved*>(&saved)); }

at::Tensor Attention::mix(const at::Tensor& x, AttentionSaved* kept) {
  const kernels::RopeShape shape = rope_shape(x);
  const at::Tensor normed = as_rows(norm_.forward(x, kept ? &kept->norm : nullptr));
  const at::Tensor qkv = project(mp_.gather(normed).wait());
  kernels::rope_forward_(qkv, rope_, shape);
  const Heads heads = heads_of(qkv, x);
  AttentionResult attention = causal_attention(heads.q, heads.k, heads.v);
  const at::Tensor mixed = rows_of_heads(attention.out);
  if (kept) {
    kept->qkv_product.x = normed;
    kept->qkv = qkv;
    if (!savings_.recomputes_core) {
      kept->attention = std::move(attention);
      kept->out_product.x = mixed;
    }
  }
  return mixed;
}

at::Tensor Attention::backward_input(const at::Tensor& dy, Saved& saved) {
  begin_backward_input(dy, saved);
  return end_backward_input(saved);
}

void Attention::begin_backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  begin_heads(mp_.gather(as_rows(dy)).wait(), dy, kept);
  if (!savings_.early_gradients) return begin_projection(dy, kept);
  PendingRows normed = mp_.gather(kept.qkv_product.x);  // in flight during the projections' product
  begin_projection(dy, kept);
  add_projection_gradient(kept.qkv_product.dy, normed.wait());  // behind the sum of dnormed
  kept.qkv_product = {};
}

// From the gradient of o's product, of all rows, to that of q, k and v before their rotation.
void Attention::begin_heads(const at::Tensor& dy_TH, const at::Tensor& own, AttentionSaved& kept) {
  const Heads heads = heads_of(kept.qkv, own);
  if (savings_.recomputes_core) {
    kept.attention = causal_attention(heads.q, heads.k, heads.v);
    kept.out_product.x = rows_of_heads(kept.attention.out);
  }
  const at::Tensor dmixed = out_.input_gradient(dy_TH);
  const at::Tensor dout =
      dmixed.view({own.size(0), mp_.sequence_tokens(own), heads_, head_dim_}).transpose(1, 2);
  const AttentionGradient gradient =
      causal_attention_backward(dout, heads.q, heads.k, heads.v, kept.attention);
  kept.qkv.reset();
  kept.attention = {};
  kept.qkv_product.dy =
      kernels::rope_backward_pack(gradient.dq, gradient.dk, gradient.dv, rope_, rope_shape(own));
}

// To the gradient of the norm's output, whose sum is started.
void Attention::begin_projection(const at::Tensor& dy, AttentionSaved& kept) {
  kept.out_product.dy = as_rows(dy);
  kept.residual = dy;
  kept.summing = mp_.sum(project_backward(kept.qkv_product.dy));
}

at::Tensor Attention::end_backward_input(Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  const at::Tensor dy = std::exchange(kept.residual, {});
  return norm_.backward_input_plus(from_rows(kept.summing.wait(), dy), dy, kept.norm);
}

void Attention::begin_backward_weight(Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  kept.gathered.emplace();
  kept.gathered->dy = mp_.gather(kept.out_product.dy);
  if (!savings_.early_gradients) kept.gathered->x = mp_.gather(kept.qkv_product.x);
}

void Attention::backward_weight(Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  if (!kept.gathered) begin_backward_weight(saved);
  auto rows = std::exchange(kept.gathered, std::nullopt);
  out_.add_weight_gradient(rows->dy.wait(), kept.out_product.x);
  kept.out_product = {};
  if (!savings_.early_gradients) add_projection_gradient(kept.qkv_product.dy, rows->x.wait());
  kept.qkv_product = {};
  norm_.backward_weight(kept.norm);
}

at::Tensor Attention::backward(const at::Tensor& dy, Saved& saved) {
  if (!mp_.is_parallel()) return Layer::backward(dy, saved);
  auto& kept = static_cast<AttentionSaved&>(saved);
  const at::Tensor dy_TH = mp_.gather(as_rows(dy)).wait();
  begin_heads(dy_TH, dy, kept);
  PendingRows normed = mp_.gather(kept.qkv_product.x);  // in flight during the projections' product
  begin_projection(dy, kept);
  // The sum of dnormed is in flight during the weight gradients.
  out_.add_weight_gradient(dy_TH, kept.out_product.x);
  kept.out_product = {};
  add_projection_gradient(kept.qkv_product.dy, normed.wait());
  kept.qkv_product = {};
  at::Tensor dx = end_backward_input(saved);
  norm_.backward_weight(kept.norm);
  return dx;
}

void Attention::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  norm_.append_parameters(parameters);
  for (Linear& projection : projections_) projection.append_parameters(parameters);
  out_.append_parameters(parameters);
}

}  // namespace braid::layers
