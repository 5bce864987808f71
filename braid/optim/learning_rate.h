// The learning rate of each update: warm-up, a stable phase if asked for, then decay to a floor.
#pragma once

#include <cstdint>

#include "braid/config/training_options.h"

namespace braid::optim {

/// The learning rate of update `step`, counted from 1. It is peak * step / warmup_steps up to step
/// warmup_steps; then `peak` up to step s = max(1, warmup_steps, stable_until), so that without a warm-up the
/// first update uses the peak; then floor + g(x) (peak - floor) with x = (step - s) / (decay_steps - s),
/// where g(x) is 1 - x (kLinear), (1 + cos(pi x)) / 2 (kCosine) or 1 - sqrt(x) (kMinusSqrt: Haegele et al.
/// 2024, arXiv:2405.18392, section 3); and `floor` from step decay_steps on. kConstant stays at the peak.
/// With a warm-up it equals the value that PaddleNLP logs for global_step = `step`. Throws ConfigError if
/// step < 1, warmup_steps < 0 or decay_steps < 1.
double learning_rate(const config::LearningRateCurve& curve, int64_t step);

}  // namespace braid::optim
