// The attention half of a decoder block: x + o(attention(rope(qkv(norm(x))))).
//
// q, k and v are one matrix, [heads * d + 2 * key-value heads * d, H], so that they need one product; in
// files they are separate.
//
// A rank of an mp group has heads / mp query heads and their key-value heads: the group sums o's products in
// F and the gradients of the norm's output in B, as in mlp.h. Where the group has more ranks than there are
// key-value heads, neighbouring ranks share one, whose gradient is a sum over them; k and v are then a matrix
// of their own.
#pragma once

#include <optional>

#include "braid/kernels/rope.h"
#include "braid/layers/causal_attention.h"
#include "braid/layers/layer.h"
#include "braid/layers/linear.h"
#include "braid/layers/mp_group.h"
#include "braid/layers/rms_norm.h"
#include "braid/layers/savings.h"

namespace braid::layers {

/// From F to B: the norm's and the two products' inputs, the rotated qkv, and the attention's own. From B to
/// W: the products' inputs and output gradients. What has H columns are this rank's rows only.
class AttentionSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override;
  RmsNormSaved norm;
  LinearSaved qkv_product;
  LinearSaved out_product;
  at::Tensor qkv;  ///< [T, (heads + 2 * key-value heads) * d] of this rank's heads, queries and keys rotated
  AttentionResult attention;

  // Between the two parts of F: x, and the sum that is added to it. Of B: dy, which also reaches x around the
  // norm, and the gradient of the norm's output.
  at::Tensor residual;
  PendingRows summing;
  std::optional<GatheredRows> gathered;  // between the two parts of W
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
    Savings savings = {};     ///< early_gradients: of q, k and v
    Placement place = {};
  };
  /// Throws ConfigError unless the ranks of the mp group divide the heads, and divide the key-value heads or
  /// are divided by them.
  explicit Attention(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<AttentionSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  void recompute(const at::Tensor& x, Saved& saved) override;  ///< up to the heads' output
  void begin_forward(const at::Tensor& x, Saved& saved) override;
  at::Tensor end_forward(Saved& saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void begin_backward_input(const at::Tensor& dy, Saved& saved) override;
  at::Tensor end_backward_input(Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void begin_backward_weight(Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override;

 private:
  struct Heads {
    at::Tensor q, k, v;  ///< [b, n, s, d] views of qkv
  };
  /// F up to the sum that is added to x, which is started.
  PendingRows begin_output(const at::Tensor& x, AttentionSaved* kept);
  /// `own`: this rank's part [b, s', H] of an activation, for b and s.
  Heads heads_of(const at::Tensor& qkv, const at::Tensor& own) const;
  kernels::RopeShape rope_shape(const at::Tensor& own) const;

  at::Tensor project(const at::Tensor& normed_TH) const;
  at::Tensor project_backward(const at::Tensor& dqkv) const;
  void add_projection_gradient(const at::Tensor& dqkv, const at::Tensor& normed_TH);

  /// The heads' output [T, heads * d]. What B and W need is kept unless `kept` is null.
  at::Tensor mix(const at::Tensor& x, AttentionSaved* kept);
  at::Tensor rows_of_heads(const at::Tensor& out) const;
  void begin_heads(const at::Tensor& dy_TH, const at::Tensor& own, AttentionSaved& kept);
  void begin_projection(const at::Tensor& dy, AttentionSaved& kept);

  MpGroup mp_;
  int64_t heads_, key_value_heads_, head_dim_;  // of this rank
  kernels::RopeTable rope_;
  Savings savings_;
  RmsNorm norm_;
  std::vector<Linear> projections_;  // q, k and v in one, or q, and k and v
  Linear out_;
};

}  // namespace braid::layers
