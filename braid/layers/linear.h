// y = x W^T, without bias: the matrix that attention, the MLP and the head are made of.
#pragma once

#include "braid/layers/layer.h"

namespace braid::layers {

/// Kept of one microbatch: x from F to W, dy from B to W.
class LinearSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&x, &dy}; }
  at::Tensor x;   ///< [b, s, K]
  at::Tensor dy;  ///< [b, s, N]
};

class Linear final : public Layer {
 public:
  /// weight [N, K] named `name`, in `options`' dtype and device, contents undefined.
  struct Options {
    std::string name;
    int64_t inputs = 0;   ///< K
    int64_t outputs = 0;  ///< N
    at::TensorOptions tensor_options;
  };
  explicit Linear(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<LinearSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters.push_back(&weight_);
  }

  tensor::Parameter& weight() { return weight_; }

 private:
  tensor::Parameter weight_;
};

}  // namespace braid::layers
