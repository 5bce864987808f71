#include "braid/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "braid/base/error.h"

namespace braid::optim {
namespace {

using config::Decay;
using config::LearningRateCurve;

// Peak and floor are reached exactly; the curve rises during the warm-up, falls after it and stays at the
// floor.
TEST(LearningRate, RisesFallsAndStays) {
  for (const Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kMinusSqrt}) {
    for (int64_t warmup = 0; warmup <= 12; ++warmup) {
      for (int64_t end = std::max<int64_t>(warmup, 1) + 1; end <= 20; ++end) {
        const LearningRateCurve curve = {.peak = 1e-4,
                                         .floor = 1e-5,
                                         .warmup_steps = static_cast<double>(warmup),
                                         .decay_steps = end,
                                         .decay = decay};
        for (int64_t step = 2; step <= end + 3; ++step) {
          const double before = learning_rate(curve, step - 1), now = learning_rate(curve, step);
          if (step <= warmup)
            EXPECT_GT(now, before);
          else if (step <= end)
            EXPECT_LT(now, before);
          else
            EXPECT_EQ(now, curve.floor);
        }
        EXPECT_EQ(learning_rate(curve, std::max<int64_t>(warmup, 1)), curve.peak);
        EXPECT_EQ(learning_rate(curve, end), curve.floor);
      }
    }
  }
}

TEST(LearningRate, GoldenValues) {
  LearningRateCurve curve = {
      .peak = 1.0, .floor = 0.2, .warmup_steps = 2, .decay_steps = 10, .decay = Decay::kLinear};
  EXPECT_DOUBLE_EQ(learning_rate(curve, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(curve, 6), 0.6);  // halfway between 2 and 10
  curve.decay = Decay::kCosine;
  EXPECT_DOUBLE_EQ(learning_rate(curve, 6), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(curve, 4), 0.2 + 0.8 * 0.5 * (1 + 0.70710678118654752440));
  curve.decay = Decay::kConstant;
  EXPECT_EQ(learning_rate(curve, 1), 0.5);
  EXPECT_EQ(learning_rate(curve, 1000), 1.0);
}

// Without a warm-up the first update uses the peak, also where it is the only one.
TEST(LearningRate, BeginsAtThePeakWithoutWarmup) {
  for (const Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kMinusSqrt, Decay::kConstant}) {
    for (const double warmup : {0.0, 0.4, 1.0}) {
      for (int64_t end = 1; end <= 3; ++end) {
        EXPECT_EQ(learning_rate({.peak = 0.7, .warmup_steps = warmup, .decay_steps = end, .decay = decay}, 1),
                  0.7);
      }
    }
  }
  const LearningRateCurve curve = {.peak = 1.0, .floor = 0.5, .decay_steps = 5, .decay = Decay::kLinear};
  EXPECT_DOUBLE_EQ(learning_rate(curve, 3), 0.75);  // halfway between 1 and 5
}

// Warm-up, stable, decay: the peak is kept up to stable_until, from which the decay runs as it otherwise does
// from the end of the warm-up.
TEST(LearningRate, StableBeforeTheDecay) {
  for (const Decay decay : {Decay::kLinear, Decay::kCosine, Decay::kMinusSqrt}) {
    const LearningRateCurve curve = {
        .peak = 1.0, .floor = 0.1, .warmup_steps = 4, .stable_until = 10, .decay_steps = 26, .decay = decay};
    LearningRateCurve late_warmup = curve;
    late_warmup.warmup_steps = 10;
    EXPECT_EQ(learning_rate(curve, 2), 0.5);
    for (int64_t step = 4; step <= 10; ++step) EXPECT_EQ(learning_rate(curve, step), 1.0);
    for (int64_t step = 11; step <= 30; ++step) {
      EXPECT_EQ(learning_rate(curve, step), learning_rate(late_warmup, step));
    }
  }
  const LearningRateCurve curve = {
      .peak = 1.0, .floor = 0.2, .stable_until = 10, .decay_steps = 26, .decay = Decay::kMinusSqrt};
  EXPECT_DOUBLE_EQ(learning_rate(curve, 14), 0.6);  // a quarter of the way: 1 - sqrt(1/4)
}

TEST(LearningRate, WarmupLongerThanTheDecayNeverFalls) {
  const LearningRateCurve curve = {
      .peak = 1.0, .floor = 0.1, .warmup_steps = 8, .decay_steps = 4, .decay = Decay::kLinear};
  EXPECT_EQ(learning_rate(curve, 4), 0.5);
  EXPECT_EQ(learning_rate(curve, 8), 1.0);
  EXPECT_EQ(learning_rate(curve, 9), 0.1);
}

TEST(LearningRate, MisuseIsNamed) {
  try {
    learning_rate({}, 0);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(), "updates count from 1, got step 0");
  }
  EXPECT_THROW(learning_rate({.warmup_steps = -1}, 1), ConfigError);
  EXPECT_THROW(learning_rate({.decay_steps = 0}, 1), ConfigError);
}

}  // namespace
}  // namespace braid::optim
