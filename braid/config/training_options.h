// What decides the numbers of a run, in braid's own terms.
#pragma once

#include <cstdint>
#include <string>

namespace braid::config {

enum class Precision : uint8_t {
  kFloat32,
  kBfloat16,  ///< weights and activations; master weights, moments and gradients are float32
  kFloat16,   ///< the same, with the loss scaled as LossScaling says
};

enum class Decay : uint8_t { kLinear, kCosine, kMinusSqrt, kConstant };

struct LearningRateCurve {
  double peak = 5e-5;
  double floor = 0.0;       ///< reached at decay_steps and kept afterwards
  double warmup_steps = 0;  ///< number of updates that rise linearly from peak / warmup_steps to peak
  int64_t stable_until =
      0;  ///< the last update at the peak; below warmup_steps: the decay follows the warm-up
  int64_t decay_steps = 1;  ///< the update at which the floor is reached
  Decay decay = Decay::kConstant;

  friend bool operator==(const LearningRateCurve&, const LearningRateCurve&) = default;
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;  ///< for parameters with `decays`

  friend bool operator==(const AdamWOptions&, const AdamWOptions&) = default;
};

/// Dynamic loss scaling: gradients of float16 activations are kept in range by a factor on the loss. A step
/// whose gradients are not finite changes no weight. The defaults are those of Paddle's AMP.
struct LossScaling {
  double initial = 32768;
  int64_t growth_interval = 1000;  ///< finite steps in a row after which the scale is multiplied by growth
  double growth = 2.0;
  int64_t backoff_after = 2;  ///< steps in a row with overflow after which it is multiplied by backoff
  double backoff = 0.8;
  double floor = 1.0;  ///< an overflow at this scale ends the run

  friend bool operator==(const LossScaling&, const LossScaling&) = default;
};

struct TrainingOptions {
  int64_t microbatch_sequences = 1;
  int64_t sequence_tokens = 1024;
  int64_t microbatches = 1;          ///< of a step
  int64_t max_steps = 1;             ///< 0: the run only evaluates
  int64_t evaluation_sequences = 0;  ///< of a microbatch of an evaluation; 0: the run does not evaluate
  Precision precision = Precision::kFloat32;
  LossScaling loss_scaling;  ///< for kFloat16
  LearningRateCurve learning_rate;
  AdamWOptions adamw;
  double max_grad_norm = 1.0;  ///< 0: no clipping

  int64_t samples_per_step() const { return microbatch_sequences * microbatches; }

  friend bool operator==(const TrainingOptions&, const TrainingOptions&) = default;
};

/// Throws ConfigError, naming the field, unless all counts and numbers are in range.
void validate(const TrainingOptions& options);

/// All fields, exactly, on one line: equal texts mean equal options.
std::string to_string(const TrainingOptions& options);

}  // namespace braid::config
