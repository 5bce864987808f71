// Pipelines at the edge of what is possible: one layer a stage, and fewer microbatches than ranks.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/comm/testing.h"
#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

// Rank 0's summary of two steps.
PretrainSummary train(const RunCase& c, int64_t layers) {
  const ScratchDirectory scratch;
  config::PretrainOptions options = options_of(c, scratch.path());
  options.max_steps = 2;
  options.skip_export = true;
  config::ModelConfig model = tiny_model(false);
  model.num_hidden_layers = layers;
  PretrainSummary result;
  comm::run_ranks(c.pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    const tensor::ArenaScope memory_of_this_rank;
    const PretrainSummary summary = pretrain({.options = config::run_options(options),
                                              .model = model,
                                              .world = world,
                                              .store = store,
                                              .reporter = {}});
    if (world.rank == 0) result = summary;
  });
  return result;
}

bool takes(const schedule::Mode& mode, const RunCase& c) {
  try {
    schedule::generate(mode.name, {.ranks = c.pp,
                                   .chunks_per_rank = static_cast<int32_t>(c.chunks),
                                   .microbatches = static_cast<int32_t>(c.microbatches)});
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

TEST(ThinStages, TrainToTheSameBitsWithAnyNumberOfMicrobatches) {
  tensor::install_cpu_allocator();
  std::map<std::string_view, int> runs;
  for (const int64_t microbatches : {1, 2, 3, 8}) {
    for (const int64_t chunks : {1, 2}) {
      const int64_t layers = 4 * chunks;
      const PretrainSummary expected =
          train({.pp = 1, .mode = "FThenB", .microbatches = microbatches}, layers);
      ASSERT_EQ(expected.losses.size(), 2u);
      for (const double loss : expected.losses) ASSERT_TRUE(std::isfinite(loss));
      for (const schedule::Mode& mode : schedule::modes()) {
        RunCase c = {.pp = 4, .mode = std::string(mode.name), .microbatches = microbatches, .chunks = chunks};
        if (!takes(mode, c)) continue;
        c.overlap = ++runs[mode.name] % 2 == 0;
        SCOPED_TRACE(::testing::PrintToString(c));
        const PretrainSummary got = train(c, layers);
        EXPECT_EQ(got.losses, expected.losses);
        EXPECT_EQ(got.grad_norms, expected.grad_norms);
        EXPECT_EQ(got.eval_losses, expected.eval_losses);
      }
    }
  }
  for (const schedule::Mode& mode : schedule::modes()) EXPECT_GE(runs[mode.name], 1) << mode.name;
}

}  // namespace
}  // namespace braid::train
