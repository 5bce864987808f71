// y = x W^T, without bias: the matrix product of which attention, the MLP and the head consist.
#pragma once

#include "braid/layers/layer.h"

namespace braid::layers {

/// Kept for one microbatch: x from F to W, dy from B to W.
class LinearSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&x, &dy}; }
  at::Tensor x;   ///< [b, s, K], or its rows [T, K]
  at::Tensor dy;  ///< [b, s, N], or its rows [T, N]
};

class Linear final : public Layer {
 public:
  /// weight [N, K] with stacked slices: several if one product serves matrices that are separate in files.
  /// `name` as for tensor::declare_parameter.
  explicit Linear(std::vector<tensor::TensorSlice> slices, std::string name = "");

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<LinearSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters.push_back(&weight_);
  }

  /// F, B and W on rows: x [T, K], dy [T, N].
  at::Tensor product(const at::Tensor& x_TK) const;
  at::Tensor input_gradient(const at::Tensor& dy_TN) const;
  void add_weight_gradient(const at::Tensor& dy_TN, const at::Tensor& x_TK);

  tensor::Parameter& weight() { return weight_; }

 private:
  tensor::Parameter weight_;
};

}  // namespace braid::layers
