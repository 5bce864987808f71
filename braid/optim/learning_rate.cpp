#include "braid/optim/learning_rate.h"

#include <cmath>
#include <numbers>

#include "braid/base/error.h"

namespace braid::optim {

double learning_rate(const config::LearningRateCurve& curve, int64_t step) {
  require<ConfigError>(step >= 1, "updates count from 1, got step ", step);
  require<ConfigError>(curve.warmup_steps >= 0, "warmup_steps must be >= 0, got ", curve.warmup_steps);
  require<ConfigError>(curve.decay_steps >= 1, "decay_steps must be >= 1, got ", curve.decay_steps);
  const auto now = static_cast<double>(step);
  if (now <= curve.warmup_steps) return curve.peak * now / curve.warmup_steps;
  if (curve.decay == config::Decay::kConstant) return curve.peak;
  if (step >= curve.decay_steps) return curve.floor;
  const double done =
      (now - curve.warmup_steps) / (static_cast<double>(curve.decay_steps) - curve.warmup_steps);
  const double left =
      curve.decay == config::Decay::kLinear ? 1.0 - done : 0.5 * (std::cos(std::numbers::pi * done) + 1.0);
  return curve.floor + left * (curve.peak - curve.floor);
}

}  // namespace braid::optim
