// The MLP half of a decoder block: x + down(silu(gate(norm(x))) * up(norm(x))).
//
// gate and up are one matrix, [2I, H], so that they need one product; in files they are separate.
//
// A rank of an mp group has I / mp features of gate, up and down: the group sums down's products in F and the
// gradients of the norm's output in B, behind the weight gradients where B and W are fused. With sequence
// parallelism (placement.h) the sums are reduce-scatters; the norm's output is gathered in F and for W, dy in
// B and for W.
#pragma once

#include <optional>

#include "braid/layers/layer.h"
#include "braid/layers/linear.h"
#include "braid/layers/mp_group.h"
#include "braid/layers/rms_norm.h"
#include "braid/layers/savings.h"

namespace braid::layers {

/// From F to B: the norm's and the first product's input, and gate and up. From B to W: both products' inputs
/// and output gradients; the activation, the second product's input, is recomputed in B instead of kept. What
/// has H columns are this rank's rows only.
class MlpSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override;
  RmsNormSaved norm;
  LinearSaved gate_up_product;
  LinearSaved down_product;
  at::Tensor gate_up;  ///< [T, 2I / mp]

  // Between the two parts of F: x, and the sum that is added to it. Of B: dy, which also reaches x around the
  // norm, and the gradient of the norm's output.
  at::Tensor residual;
  PendingRows summing;
  std::optional<GatheredRows> gathered;  // between the two parts of W
};

class Mlp final : public Layer {
 public:
  struct Options {
    std::string name;          ///< prefix in files, as "model.layers.3"
    int64_t hidden = 0;        ///< H
    int64_t intermediate = 0;  ///< I
    double norm_eps = 1e-6;
    Savings savings = {};  ///< early_gradients: of down
    Placement place = {};
  };
  /// Throws ConfigError unless the ranks of the mp group divide I.
  explicit Mlp(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<MlpSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  void begin_forward(const at::Tensor& x, Saved& saved) override;
  at::Tensor end_forward(Saved& saved) override;
  void recompute(const at::Tensor& x, Saved& saved) override;  ///< up to the product of gate and up
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void begin_backward_input(const at::Tensor& dy, Saved& saved) override;
  at::Tensor end_backward_input(Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void begin_backward_weight(Saved& saved) override;
  at::Tensor backward(const at::Tensor& dy, Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override;

 private:
  /// F up to the sum that is added to x, which is started.
  PendingRows begin_output(const at::Tensor& x, MlpSaved* kept);
  /// The product of gate and up. What B and W need is kept unless `kept` is null.
  at::Tensor gate_and_up(const at::Tensor& x, MlpSaved* kept);
  void begin_down(const at::Tensor& dy_TH, MlpSaved& kept);
  void begin_gate_up(const at::Tensor& dy, MlpSaved& kept);

  Savings savings_;
  MpGroup mp_;
  RmsNorm norm_;
  Linear gate_up_;
  Linear down_;
};

}  // namespace braid::layers
