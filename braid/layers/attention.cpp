#include "braid/layers/attention.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/layers/accumulate.h"

namespace braid::layers {

using tensor::whole_tensor;

std::vector<const at::Tensor*> AttentionSaved::tensors() const {
  std::vector<const at::Tensor*> all = {&qkv};
  for (const auto& part :
       {norm.tensors(), qkv_product.tensors(), out_product.tensors(), attention.tensors()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Attention::Attention(const Options& options)
    : heads_(options.heads),
      key_value_heads_(options.key_value_heads),
      head_dim_(options.head_dim),
      rope_(options.rope),
      norm_({.name = options.name + ".input_layernorm.weight",
             .hidden = options.hidden,
             .eps = options.norm_eps}),
      qkv_({whole_tensor(options.name + ".self_attn.q_proj.weight", {heads_ * head_dim_, options.hidden}),
            whole_tensor(options.name + ".self_attn.k_proj.weight",
                         {key_value_heads_ * head_dim_, options.hidden}),
            whole_tensor(options.name + ".self_attn.v_proj.weight",
                         {key_value_heads_ * head_dim_, options.hidden})},
           options.name + ".self_attn.qkv_proj.weight"),
      out_({whole_tensor(options.name + ".self_attn.o_proj.weight", {options.hidden, heads_ * head_dim_})}) {}

Attention::Heads Attention::heads_of(const at::Tensor& qkv, const at::Tensor& like) const {
  const at::Tensor heads =
      qkv.view({like.size(0), like.size(1), heads_ + 2 * key_value_heads_, head_dim_}).transpose(1, 2);
  return {heads.narrow(1, 0, heads_), heads.narrow(1, heads_, key_value_heads_),
          heads.narrow(1, heads_ + key_value_heads_, key_value_heads_)};
}

kernels::RopeShape Attention::rope_shape(const at::Tensor& x) const {
  require<ShapeError>(x.size(1) <= rope_.cos_Sd.size(0), "a sequence of ", x.size(1),
                      " tokens is longer than the ", rope_.cos_Sd.size(0),
                      " positions of the model (max_position_embeddings)");
  return {.seq = x.size(1), .query_heads = heads_, .key_value_heads = key_value_heads_};
}

at::Tensor Attention::forward(const at::Tensor& x, Saved* saved) {
  auto* kept = static_cast<AttentionSaved*>(saved);
  const at::Tensor normed = norm_.forward(x, kept ? &kept->norm : nullptr);
  const at::Tensor qkv = as_rows(qkv_.forward(normed, kept ? &kept->qkv_product : nullptr));
  kernels::rope_forward_(qkv, rope_, rope_shape(x));
  const Heads heads = heads_of(qkv, x);
  AttentionResult attention = causal_attention(heads.q, heads.k, heads.v);
  const at::Tensor mixed = attention.out.transpose(1, 2).reshape({x.size(0), x.size(1), heads_ * head_dim_});
  if (kept) {
    kept->qkv = qkv;
    kept->attention = std::move(attention);
  }
  return out_.forward(mixed, kept ? &kept->out_product : nullptr).add_(x);
}

at::Tensor Attention::backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  const at::Tensor dmixed = out_.backward_input(dy, kept.out_product);
  const Heads heads = heads_of(kept.qkv, dy);
  const at::Tensor dout = dmixed.view({dy.size(0), dy.size(1), heads_, head_dim_}).transpose(1, 2);
  const AttentionGradient gradient =
      causal_attention_backward(dout, heads.q, heads.k, heads.v, kept.attention);
  kept.qkv.reset();
  kept.attention = {};
  const at::Tensor dqkv =
      kernels::rope_backward_pack(gradient.dq, gradient.dk, gradient.dv, rope_, rope_shape(dy));
  const at::Tensor dnormed = qkv_.backward_input(from_rows(dqkv, dy), kept.qkv_product);
  return norm_.backward_input_plus(dnormed, dy, kept.norm);
}

void Attention::backward_weight(Saved& saved) {
  auto& kept = static_cast<AttentionSaved&>(saved);
  out_.backward_weight(kept.out_product);
  qkv_.backward_weight(kept.qkv_product);
  norm_.backward_weight(kept.norm);
}

void Attention::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  norm_.append_parameters(parameters);
  qkv_.append_parameters(parameters);
  out_.append_parameters(parameters);
}

}  // namespace braid::layers
