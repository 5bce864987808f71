#include "braid/config/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "braid/base/error.h"
#include "braid/config/training_options.h"

namespace braid {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const Strategy& strategy) {
  try {
    config::validate(strategy);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Strategy, GradientsAreReducedOncePerStepUnlessTheyAreSharded) {
  for (const int32_t stage : {0, 1}) {
    EXPECT_EQ((Strategy{.sharding_stage = stage}.reduce_timing()), ReduceTiming::kStep);
    EXPECT_EQ(
        (Strategy{.sharding_stage = stage, .sharding_reduce = ReduceTiming::kMicrobatch}.reduce_timing()),
        ReduceTiming::kMicrobatch);
  }
  for (const int32_t stage : {2, 3}) {
    EXPECT_EQ((Strategy{.sharding_stage = stage}.reduce_timing()), ReduceTiming::kMicrobatch);
    EXPECT_EQ((Strategy{.sharding_stage = stage, .sharding_reduce = ReduceTiming::kStep}.reduce_timing()),
              ReduceTiming::kStep);
  }
}

TEST(Strategy, EachFieldIsCheckedAndAllErrorsComeAtOnce) {
  EXPECT_EQ(error_of({}), "accepted");
  EXPECT_EQ(error_of({.mesh = {.mp = 2, .sharding = 4, .pp = 4, .dp = 2},
                      .sharding_stage = 3,
                      .sequence_parallel = true,
                      .offloads_optimizer = true,
                      .offload_dir = "d",
                      .recompute = Recomputation::kFull,
                      .no_recompute_layers = {0, 7}}),
            "accepted");
  EXPECT_EQ(error_of({.mesh = {.mp = 0}}), "the mp degree must be >= 1, got 0");
  EXPECT_EQ(error_of({.sharding_stage = 4}), "Strategy::sharding_stage must be >= 0 and <= 3, got 4");
  EXPECT_THAT(error_of({.sharding_stage = -1}), HasSubstr("got -1"));
  EXPECT_THAT(error_of({.sequence_parallel = true}), HasSubstr("needs mesh.mp > 1, got 1"));
  EXPECT_EQ(error_of({.offload_dir = "d"}), "Strategy::offload_dir is 'd', but offloads_optimizer is false");
  EXPECT_THAT(error_of({.chunks_per_rank = 0}), HasSubstr("Strategy::chunks_per_rank must be >= 1, got 0"));
  EXPECT_THAT(error_of({.segment_bytes = 0}), HasSubstr("Strategy::segment_bytes must be >= 1, got 0"));
  EXPECT_THAT(error_of({.recompute = Recomputation::kAuto}),
              HasSubstr("chooses by memory_limit_bytes: set it"));
  EXPECT_THAT(error_of({.mesh = {.sharding = 2}, .sharding_stage = 2, .early_weight_gradients = true}),
              HasSubstr("early_weight_gradients adds up gradients of several microbatches at a time"));
  EXPECT_THAT(error_of({.no_recompute_layers = {1}}), HasSubstr("but recompute is kNone"));
  EXPECT_THAT(error_of({.recompute = Recomputation::kFull, .no_recompute_layers = {1, -2}}),
              HasSubstr("counts layers from 0, got -2"));
  EXPECT_THAT(error_of({.mesh = {.dp = -1}, .sharding_stage = 9, .segment_bytes = -5}),
              AllOf(HasSubstr("3 errors:"), HasSubstr("dp degree"), HasSubstr("got 9"), HasSubstr("got -5")));
}

TEST(TrainingOptions, LossScalingIsCheckedAndPrinted) {
  using config::TrainingOptions;
  const auto error = [](const config::LossScaling& scaling) {
    try {
      config::validate(TrainingOptions{.loss_scaling = scaling});
    } catch (const ConfigError& rejection) {
      return std::string(rejection.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(error({}), "accepted");
  EXPECT_THAT(error({.initial = 0.5}),
              HasSubstr("TrainingOptions::loss_scaling.initial is out of range: 0.5"));
  EXPECT_THAT(error({.growth_interval = 0}), HasSubstr("loss_scaling.growth_interval must be >= 1, got 0"));
  EXPECT_THAT(error({.growth = 0.5}), HasSubstr("loss_scaling.growth is"));
  EXPECT_THAT(error({.backoff_after = 0}), HasSubstr("loss_scaling.backoff_after must be >= 1, got 0"));
  EXPECT_THAT(error({.backoff = 1}), HasSubstr("loss_scaling.backoff is"));
  EXPECT_THAT(error({.floor = 0}), HasSubstr("loss_scaling.floor is"));
  const std::string standard = to_string(TrainingOptions{});
  for (const config::LossScaling& other :
       {config::LossScaling{.initial = 2}, config::LossScaling{.growth_interval = 2},
        config::LossScaling{.growth = 3}, config::LossScaling{.backoff_after = 3},
        config::LossScaling{.backoff = 0.5}, config::LossScaling{.floor = 2}}) {
    EXPECT_NE(to_string(TrainingOptions{.loss_scaling = other}), standard);
  }
  EXPECT_NE(to_string(TrainingOptions{.precision = config::Precision::kFloat16}), standard);
}

}  // namespace
}  // namespace braid
