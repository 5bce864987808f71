// The learning rate of each update: warm-up, then decay to a floor.
#pragma once

#include <cstdint>

namespace braid::optim {

enum class Decay : uint8_t { kLinear, kCosine, kConstant };

struct LearningRateCurve {
  double peak = 5e-5;
  double floor = 0.0;       ///< reached at decay_steps and kept afterwards
  double warmup_steps = 0;  ///< number of updates that rise linearly from peak / warmup_steps to peak
  int64_t decay_steps = 1;  ///< the update at which the floor is reached
  Decay decay = Decay::kLinear;
};

/// The learning rate of update `step`, counted from 1. Rises to `peak` at step warmup_steps, falls to `floor`
/// at step decay_steps: linearly, or along half a cosine; kConstant stays at the peak. Equals the value that
/// PaddleNLP logs for global_step = `step`. Throws ConfigError if step < 1, warmup_steps < 0 or decay_steps
/// < 1.
double learning_rate(const LearningRateCurve& curve, int64_t step);

}  // namespace braid::optim
