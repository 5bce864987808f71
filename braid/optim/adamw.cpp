#include "braid/optim/adamw.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/kernels/adamw.h"

namespace braid::optim {

AdamW::AdamW(std::vector<tensor::Parameter*> parameters, const AdamWOptions& options) : options_(options) {
  for (tensor::Parameter* parameter : parameters) {
    const at::ScalarType wide = parameter->main_grad.scalar_type();
    const bool own_master = parameter->value.scalar_type() == wide;
    states_.push_back({.parameter = parameter,
                       .master = own_master ? parameter->value : parameter->value.to(wide),
                       .exp_avg = at::zeros_like(parameter->main_grad),
                       .exp_avg_sq = at::zeros_like(parameter->main_grad)});
  }
}

void AdamW::step(double lr, double gradient_scale) {
  ++steps_;
  for (State& state : states_) {
    tensor::Parameter& parameter = *state.parameter;
    require<InternalError>(parameter.gradient_started, "parameter ", parameter.name,
                           " got no gradient in this step");
    kernels::adamw_(state.master, state.exp_avg, state.exp_avg_sq, parameter.main_grad, parameter.value,
                    {.lr = lr,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = parameter.decays ? options_.weight_decay : 0.0,
                     .step = steps_,
                     .grad_scale = gradient_scale});
    parameter.gradient_started = false;
  }
}

void AdamW::values_changed() {
  for (State& state : states_) state.master.copy_(state.parameter->value);
}

}  // namespace braid::optim
