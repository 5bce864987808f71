// y = x / rms(x) * weight. Source: Zhang and Sennrich 2019, arXiv:1910.07467.
#pragma once

#include "braid/layers/layer.h"
#include "braid/layers/placement.h"

namespace braid::layers {

/// Kept for one microbatch: x and 1 / rms from F to B; from B to W the weight gradient itself, a vector of H.
class RmsNormSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&x, &rstd, &dweight}; }
  at::Tensor x;        ///< [b, s, H]
  at::Tensor rstd;     ///< [T] float32 (float64 for float64 x)
  at::Tensor dweight;  ///< [H] float32 (float64 for float64 x)
};

class RmsNorm final : public Layer {
 public:
  struct Options {
    std::string name;  ///< of the weight
    int64_t hidden = 0;
    double eps = 1e-6;
    Placement place =
        {};  ///< all ranks of the mp group have the weight; each normalises the rows it is given
  };
  explicit RmsNorm(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<RmsNormSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters.push_back(&weight_);
  }

  /// Like backward_input, plus `dresidual` [b, s, H]: the gradient that reaches x around the norm, added in
  /// the same pass.
  at::Tensor backward_input_plus(const at::Tensor& dy, const at::Tensor& dresidual, RmsNormSaved& saved);

  tensor::Parameter& weight() { return weight_; }

 private:
  tensor::Parameter weight_;
  double eps_;
};

}  // namespace braid::layers
