#include "braid/config/training_options.h"

#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::config {

void validate(const TrainingOptions& options) {
  const auto at_least = [](const char* field, int64_t least, int64_t value) {
    require<ConfigError>(value >= least, "TrainingOptions::", field, " must be >= ", least, ", got ", value);
  };
  at_least("microbatch_sequences", 1, options.microbatch_sequences);
  at_least("sequence_tokens", 1, options.sequence_tokens);
  at_least("microbatches", 1, options.microbatches);
  at_least("max_steps", 0, options.max_steps);
  at_least("evaluation_sequences", 0, options.evaluation_sequences);
  const auto within = [](const char* field, bool is_in_range, double value) {
    require<ConfigError>(is_in_range && std::isfinite(value), "TrainingOptions::", field,
                         " is out of range: ", to_text(value));
  };
  const auto& [beta1, beta2, eps, weight_decay] = options.adamw;
  within("adamw.beta1", 0 <= beta1 && beta1 < 1, beta1);
  within("adamw.beta2", 0 <= beta2 && beta2 < 1, beta2);
  within("adamw.eps", eps > 0, eps);
  within("adamw.weight_decay", weight_decay >= 0, weight_decay);
  const LossScaling& scaling = options.loss_scaling;
  within("loss_scaling.floor", scaling.floor > 0, scaling.floor);
  within("loss_scaling.initial", scaling.initial >= scaling.floor, scaling.initial);
  within("loss_scaling.growth", scaling.growth >= 1, scaling.growth);
  within("loss_scaling.backoff", 0 < scaling.backoff && scaling.backoff < 1, scaling.backoff);
  at_least("loss_scaling.growth_interval", 1, scaling.growth_interval);
  at_least("loss_scaling.backoff_after", 1, scaling.backoff_after);
  within("max_grad_norm", options.max_grad_norm >= 0, options.max_grad_norm);
  if (options.max_steps == 0) return;
  const LearningRateCurve& curve = options.learning_rate;
  within("learning_rate.peak", curve.peak >= 0, curve.peak);
  within("learning_rate.floor", curve.floor >= 0, curve.floor);
  within("learning_rate.warmup_steps", curve.warmup_steps >= 0, curve.warmup_steps);
  at_least("learning_rate.stable_until", 0, curve.stable_until);
  at_least("learning_rate.decay_steps", 1, curve.decay_steps);
}

std::string to_string(const TrainingOptions& options) {
  const LearningRateCurve& curve = options.learning_rate;
  const AdamWOptions& adamw = options.adamw;
  const LossScaling& scaling = options.loss_scaling;
  return cat(options.microbatch_sequences, " ", options.sequence_tokens, " ", options.microbatches, " ",
             options.max_steps, " ", options.evaluation_sequences, " ", static_cast<int>(options.precision),
             " ", to_text(curve.peak), " ", to_text(curve.floor), " ", to_text(curve.warmup_steps), " ",
             curve.stable_until, " ", curve.decay_steps, " ", static_cast<int>(curve.decay), " ",
             to_text(adamw.beta1), " ", to_text(adamw.beta2), " ", to_text(adamw.eps), " ",
             to_text(adamw.weight_decay), " ", to_text(options.max_grad_norm), " ", to_text(scaling.initial),
             " ", scaling.growth_interval, " ", to_text(scaling.growth), " ", scaling.backoff_after, " ",
             to_text(scaling.backoff), " ", to_text(scaling.floor));
}

}  // namespace braid::config
