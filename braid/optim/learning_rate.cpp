#include "braid/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "braid/base/error.h"

namespace braid::optim {
namespace {

// Of the way from peak to floor, the share that remains after the share `done` of the decay.
double remaining(config::Decay decay, double done) {
  switch (decay) {
    case config::Decay::kLinear:
      return 1.0 - done;
    case config::Decay::kCosine:
      return 0.5 * (std::cos(std::numbers::pi * done) + 1.0);
    case config::Decay::kMinusSqrt:
      return 1.0 - std::sqrt(done);
    case config::Decay::kConstant:
      return 1.0;
  }
  throw InternalError("a decay that remaining() does not know");
}

}  // namespace

double learning_rate(const config::LearningRateCurve& curve, int64_t step) {
  require<ConfigError>(step >= 1, "updates count from 1, got step ", step);
  require<ConfigError>(curve.warmup_steps >= 0, "warmup_steps must be >= 0, got ", curve.warmup_steps);
  require<ConfigError>(curve.decay_steps >= 1, "decay_steps must be >= 1, got ", curve.decay_steps);
  const auto now = static_cast<double>(step);
  if (now <= curve.warmup_steps) return curve.peak * now / curve.warmup_steps;
  const double start = std::max({1.0, curve.warmup_steps, static_cast<double>(curve.stable_until)});
  if (curve.decay == config::Decay::kConstant || now <= start) return curve.peak;
  if (step >= curve.decay_steps) return curve.floor;
  const double done = (now - start) / (static_cast<double>(curve.decay_steps) - start);
  return curve.floor + remaining(curve.decay, done) * (curve.peak - curve.floor);
}

}  // namespace braid::optim
