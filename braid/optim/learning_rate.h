// The learning rate of each update: warm-up, then decay to a floor.
#pragma once

#include <cstdint>

#include "braid/config/training_options.h"

namespace braid::optim {

/// The learning rate of update `step`, counted from 1. Rises to `peak` at step warmup_steps, falls to `floor`
/// at step decay_steps: linearly, or along half a cosine; kConstant stays at the peak. Equals the value that
/// PaddleNLP logs for global_step = `step`. Throws ConfigError if step < 1, warmup_steps < 0 or decay_steps
/// < 1.
double learning_rate(const config::LearningRateCurve& curve, int64_t step);

}  // namespace braid::optim
