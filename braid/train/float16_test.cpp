// Training in float16: a scaled loss, skipped steps, and the end of a run whose gradients always overflow.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "braid/base/error.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/tensor/memory.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

constexpr int64_t kSequences = 2, kTokens = 16, kMicrobatches = 4;

Trainer::Options options_of(const mesh::MeshShape& mesh, const config::LossScaling& scaling,
                            config::Precision precision = config::Precision::kFloat16) {
  return {.strategy = {.mesh = mesh, .schedule_mode = "ZBH1", .durations = schedule::Durations{}},
          .training = {.microbatch_sequences = kSequences,
                       .sequence_tokens = kTokens,
                       .microbatches = kMicrobatches,
                       .max_steps = 10,
                       .precision = precision,
                       .loss_scaling = scaling,
                       .learning_rate = {.peak = 1e-3}},
          .model = model::llama_spec({.vocab_size = 64,
                                      .hidden_size = 32,
                                      .intermediate_size = 48,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 2,
                                      .num_key_value_heads = 1,
                                      .max_position_embeddings = kTokens}),
          .initialise = [](std::span<tensor::Parameter* const> all) { model::initialise(all, {.seed = 3}); }};
}

std::vector<pipeline::Microbatch> microbatches_of(const Trainer& trainer, int64_t step) {
  std::vector<pipeline::Microbatch> result;
  for (int64_t i = 0; i < kMicrobatches; ++i) {
    const int64_t number = (step * kMicrobatches + i) * trainer.plan().data_ranks() + trainer.data_rank();
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(number));
    const at::Tensor tokens = at::randint(0, 64, {kSequences, kTokens}, generator, at::kLong);
    result.push_back({.tokens = tokens, .labels = tokens.roll(-1, 1)});
  }
  return result;
}

using Outcomes = std::vector<StepOutcome>;

Outcomes run(Trainer::Options options, int64_t steps) {
  tensor::install_cpu_allocator();
  Outcomes result;
  comm::run_ranks(static_cast<int>(options.strategy.mesh.world_size()),
                  [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
                    Trainer::Options mine = options;
                    mine.place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)};
                    Trainer trainer(mine);
                    Outcomes outcomes;
                    for (int64_t step = 1; step <= steps; ++step) {
                      outcomes.push_back(*trainer.step(microbatches_of(trainer, step)));
                    }
                    trainer.world().barrier().wait();
                    if (world.rank == 0) result = outcomes;
                  });
  return result;
}

// float16 has three bits more than bfloat16: its losses are the nearer to those of float32.
TEST(Float16, LearnsLikeFloat32) {
  const Outcomes wide = run(options_of({}, {}, config::Precision::kFloat32), 5);
  const Outcomes narrow = run(options_of({}, {}), 5);
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_FALSE(narrow[i].skipped);
    EXPECT_EQ(narrow[i].loss_scale, 32768.0);
    EXPECT_FALSE(wide[i].loss_scale.has_value());
    EXPECT_NEAR(narrow[i].loss, wide[i].loss, 0x1p-10 * wide[i].loss);
    EXPECT_NEAR(narrow[i].grad_norm, wide[i].grad_norm, 0x1p-6 * wide[i].grad_norm) << "unscaled";
  }
  EXPECT_NE(narrow[0].loss, narrow[4].loss);
}

// 2^40 is more than float16 holds: steps are skipped until the scale is small enough.
TEST(Float16, StepsThatOverflowAreSkippedAndTouchNoWeight) {
  const config::LossScaling scaling = {.initial = 0x1p40, .backoff = 0x1p-12, .backoff_after = 2};
  std::map<int, Outcomes> of_mesh;
  for (const mesh::MeshShape& mesh : {mesh::MeshShape{}, {.pp = 2}}) {
    const Outcomes outcomes = run(options_of(mesh, scaling), 8);
    of_mesh[mesh.pp] = outcomes;
    int64_t skipped = 0;
    for (const StepOutcome& outcome : outcomes) skipped += outcome.skipped ? 1 : 0;
    EXPECT_GE(skipped, 2);
    EXPECT_LT(skipped, 8) << "the scale falls";
    EXPECT_EQ(skipped % 2, 0) << "two in a row for each backoff";
    EXPECT_EQ(outcomes.front().loss_scale, 0x1p40);
    EXPECT_FALSE(outcomes.back().skipped);
    EXPECT_LT(outcomes.back().loss_scale, 0x1p40);
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(of_mesh[1][i].loss, of_mesh[2][i].loss);
  // Each step has other samples; skipped ones leave the first weights as they were.
  const auto first = std::ranges::find(of_mesh[1], false, &StepOutcome::skipped);
  Trainer::Options still = options_of({}, {.initial = *first->loss_scale});
  still.training.learning_rate.peak = 0;
  EXPECT_EQ(run(still, first->step).back().loss, first->loss);
}

TEST(Float16, ARunWhoseScaleIsAtItsFloorEndsAndNamesTheLayer) {
  tensor::install_cpu_allocator();
  const Trainer::Options options = options_of({.sharding = 2}, {.initial = 0x1p60, .floor = 0x1p60});
  const auto messages =
      comm::run_failing_ranks(2, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Trainer::Options mine = options;
        mine.place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)};
        Trainer trainer(mine);
        trainer.step(microbatches_of(trainer, 1));
      });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, ::testing::HasSubstr("at the smallest loss scale"));
    EXPECT_THAT(*message, ::testing::HasSubstr("whose gradients are not finite is lm_head"));
  }
}

}  // namespace
}  // namespace braid::train
