// AdamW over the parameters of one rank: float32 master weights and moments, updated in place.
#pragma once

#include <cstdint>
#include <vector>

#include "braid/tensor/parameter.h"

namespace braid::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< for parameters with `decays`
};

class AdamW {
 public:
  /// States for `parameters`, which must outlive this. The master weights start as their values; a float32
  /// (or float64) parameter is its own master. Extra memory: 8 bytes per element, 12 for bfloat16 parameters.
  AdamW(std::vector<tensor::Parameter*> parameters, const AdamWOptions& options);

  /// One update with learning rate `lr`, from main_grad times `gradient_scale`. Ends the step of every main
  /// gradient (Parameter::gradient_started becomes false). A parameter whose gradient was never written in
  /// this step is an InternalError. Allocates nothing. Local: no communication.
  void step(double lr, double gradient_scale);

  /// Takes the parameters' values anew as master weights, after they were loaded.
  void values_changed();

  /// Updates done so far.
  int64_t steps() const { return steps_; }

 private:
  struct State {
    tensor::Parameter* parameter;
    at::Tensor master, exp_avg, exp_avg_sq;
  };
  AdamWOptions options_;
  std::vector<State> states_;
  int64_t steps_ = 0;
};

}  // namespace braid::optim
