#include "braid/train/learning_rate_proposal.h"

#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cost/layer_cost.h"

namespace braid::train {
namespace {

template <typename Predicate>
double flops_per_token(const RunPlan& plan, Predicate counts) {
  double sum = 0;
  for (const layers::LayerSpec& layer : plan.model.layers) {
    if (!counts(layer)) continue;
    sum += cost::training_flops(layers::work_of(layer, {.sequence_tokens = plan.training.sequence_tokens}));
  }
  return sum;
}

}  // namespace

double flops_per_token(const RunPlan& plan) {
  return flops_per_token(plan, [](const layers::LayerSpec&) { return true; });
}

double proposed_learning_rate(double flops) {
  require<InternalError>(flops > 0, "proposed_learning_rate: flops must be positive, got ", flops);
  const double rate = 0.3118 * std::pow(flops, -0.125);
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 1);
  return std::round(rate / unit) * unit;
}

std::string learning_rate_proposal(const RunPlan& plan) {
  const double tokens = static_cast<double>(plan.training.max_steps) *
                        static_cast<double>(plan.samples_per_step()) *
                        static_cast<double>(plan.training.sequence_tokens);
  const double flops =
      tokens * flops_per_token(plan, [](const layers::LayerSpec& layer) { return layer.kind != "head"; });
  const std::string default_rate = to_text(plan.training.learning_rate.peak);
  if (flops <= 0) return cat("warning: no --learning_rate was given: it is ", default_rate);
  return cat("warning: no --learning_rate was given, and ", default_rate,
             ", the default, suits fine-tuning; for this model from random weights and ", brief(tokens, 3),
             " tokens, try --learning_rate ", to_text(proposed_learning_rate(flops)));
}

}  // namespace braid::train
