// The attention half of a decoder block: x + o(attention(rope(qkv(norm(x))))).
//
// q, k and v are one matrix, [heads * d + 2 * key-value heads * d, H], so that they need one product; in
// files they are separate.
#pragma once

#include "braid/kernels/rope.h"
#include "braid/layers/causal_attention.h"
#include "braid/layers/layer.h"
#include "braid/layers/linear.h"
#include "braid/layers/rms_norm.h"

namespace braid::layers {

/// From F to B: the norm's and the two products' inputs, the rotated qkv, and the attention's own. From B to
/// W: the products' inputs and output gradients.
class AttentionSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override;
  RmsNormSaved norm;
  LinearSaved qkv_product;
  LinearSaved out_product;
  at::Tensor qkv;  ///< [T, (heads + 2 * key-value heads) * d], queries and keys rotated
  AttentionResult attention;
};

class Attention final : public Layer {
 public:
  struct Options {
    std::string name;    ///< prefix in files, as "model.layers.3"
    int64_t hidden = 0;  ///< H
    int64_t heads = 0;
    int64_t key_value_heads = 0;
    int64_t head_dim = 0;  ///< d
    double norm_eps = 1e-6;
    kernels::RopeTable rope;  ///< at least as long as any sequence
  };
  explicit Attention(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<AttentionSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override;

 private:
  struct Heads {
    at::Tensor q, k, v;  ///< [b, n, s, d] views of qkv
  };
  Heads heads_of(const at::Tensor& qkv, const at::Tensor& like) const;
  kernels::RopeShape rope_shape(const at::Tensor& x) const;

  int64_t heads_, key_value_heads_, head_dim_;
  kernels::RopeTable rope_;
  RmsNorm norm_;
  Linear qkv_;
  Linear out_;
};

}  // namespace braid::layers
