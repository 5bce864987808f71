// The choice of recomputation under a memory limit, held against all choices there are.
#include "braid/train/recompute_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/model/llama.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/tensor/memory.h"
#include "braid/train/plan_text.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

using config::Recomputation;
using ::testing::Contains;
using ::testing::HasSubstr;

config::ModelConfig four_layers() {
  config::ModelConfig config = tiny_model(false);
  config.num_hidden_layers = 4;
  return config;
}

RunPlan plan_of(const config::Strategy& strategy) {
  return make_run_plan(strategy, {.microbatch_sequences = 2, .sequence_tokens = 12, .microbatches = 4},
                       model::llama_spec(four_layers()));
}

config::Strategy strategy_of(const schedule::Mode& mode, int pp, int32_t chunks) {
  return {.mesh = {.pp = pp}, .chunks_per_rank = chunks, .schedule_mode = std::string(mode.name)};
}

std::vector<int64_t> peaks_of(const RunPlan& plan) {
  return schedule::peak_memory(plan.compute, plan.memory_bytes);
}

int64_t peak_of(const RunPlan& plan) { return std::ranges::max(peaks_of(plan)); }

/// Recomputed on each rank, per token.
std::vector<double> flops_of(const RunPlan& plan) {
  std::vector<double> of_ranks;
  for (int32_t rank = 0; rank < plan.compute.shape.ranks; ++rank) {
    double& sum = of_ranks.emplace_back(0);
    for (const auto& stage : plan.layers_of_rank(rank)) {
      for (const layers::LayerSpec& layer : stage)
        sum += layers::work_of(layer, plan.microbatch()).recomputed_flops;
    }
  }
  return of_ranks;
}

/// Of each rank, the least FLOPs with which it keeps `limit` under base.compute; found by trying everything.
std::vector<double> least_flops(const RunPlan& base, int64_t limit) {
  const size_t blocks = base.recompute.size();
  std::vector<double> least(static_cast<size_t>(base.compute.shape.ranks), 1e300);
  for (int code = 0; code < 1 << 2 * blocks; ++code) {
    RunPlan plan = base;
    for (size_t i = 0; i < blocks; ++i) plan.recompute[i] = static_cast<Recomputation>((code >> 2 * i) & 3);
    const layers::ModelSpec recomputing = recompute_blocks(base.model, plan.recompute);
    for (int32_t stage = 0; stage < base.stages(); ++stage) {
      const int64_t begin = index_in(recomputing, base.layers_of(stage).front());
      plan.stage_layers[static_cast<size_t>(stage)].begin = begin;
      if (stage > 0) plan.stage_layers[static_cast<size_t>(stage - 1)].end = begin;
    }
    plan.stage_layers.back().end = std::ssize(recomputing.layers);
    plan.model = recomputing;
    for (int32_t stage = 0; stage < base.stages(); ++stage) {
      schedule::StageMemory& sum = plan.memory_bytes.stages[static_cast<size_t>(stage)];
      sum = {0, 0};
      for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
        sum.forward_to_backward += layer.saved_bytes(plan.microbatch()).forward_to_backward;
        sum.backward_to_weight += layer.saved_bytes(plan.microbatch()).backward_to_weight;
      }
    }
    const std::vector<int64_t> peaks = peaks_of(plan);
    const std::vector<double> flops = flops_of(plan);
    for (size_t rank = 0; rank < least.size(); ++rank) {
      if (peaks[rank] <= limit) least[rank] = std::min(least[rank], flops[rank]);
    }
  }
  return least;
}

TEST(RecomputeChoice, IsTheCheapestOfAllThatKeepTheLimit) {
  int choices = 0, partial = 0;
  for (const char* mode : {"1F1B", "ZBH1", "VPP", "DualPipeV"}) {
    const int32_t chunks = std::string(mode) == "VPP" || std::string(mode) == "DualPipeV" ? 2 : 1;
    config::Strategy strategy = strategy_of(schedule::mode_of(mode), 2, chunks);
    const RunPlan none = plan_of(strategy);
    strategy.recompute = Recomputation::kFull;
    const RunPlan full = plan_of(strategy);
    strategy.recompute = Recomputation::kAuto;
    RunPlan base = none;
    base.recompute.assign(4, Recomputation::kNone);
    for (int tenth = 0; tenth <= 10; ++tenth) {
      const int64_t limit = peak_of(full) + (peak_of(none) - peak_of(full)) * tenth / 10;
      SCOPED_TRACE(cat(mode, " within ", limit));
      strategy.memory_limit_bytes = limit;
      const RunPlan plan = plan_of(strategy);
      EXPECT_LE(peak_of(plan), limit);
      EXPECT_EQ(plan.compute.ranks, none.compute.ranks) << "a fixed schedule stays as it is";
      const std::vector<double> want = least_flops(base, limit);
      const std::vector<double> got = flops_of(plan);
      for (size_t rank = 0; rank < want.size(); ++rank) EXPECT_DOUBLE_EQ(got[rank], want[rank]) << rank;
      ++choices;
      if (want[0] > 0 && want[0] < flops_of(full)[0]) ++partial;
    }
    EXPECT_EQ(flops_of(plan_of(strategy)), flops_of(none)) << "within what it keeps anyway";
  }
  EXPECT_EQ(choices, 44);
  EXPECT_GT(partial, 10) << "recomputation of a part of the layers";
}

TEST(RecomputeChoice, EveryModeKeepsTheLimit) {
  int modes = 0, fused = 0;
  for (const schedule::Mode& mode : schedule::modes()) {
    config::Strategy strategy = strategy_of(mode, 2, mode.chunks.value_or(1));
    SCOPED_TRACE(mode.name);
    const RunPlan none = plan_of(strategy);
    strategy.recompute = Recomputation::kFull;
    const RunPlan full = plan_of(strategy);
    // With longer B, schedules made for times may keep more W's, since there is no limit yet.
    const int64_t limit = (peak_of(none) + std::min(peak_of(none), peak_of(full))) / 2;
    if (!uses(none.compute, schedule::Op::kBackwardInput)) {
      EXPECT_LT(peak_of(full), peak_of(none));
      ++fused;
    } else if (!mode.arranges_for_times) {
      EXPECT_LE(peak_of(full), peak_of(none)) << "equal where what is kept for W is the most";
    }
    strategy.recompute = Recomputation::kAuto;
    strategy.memory_limit_bytes = limit;
    const RunPlan plan = plan_of(strategy);
    EXPECT_LE(peak_of(plan), limit);
    EXPECT_EQ(plan.recompute.size(), 4u);
    ++modes;
  }
  EXPECT_EQ(modes, std::ssize(schedule::modes()));
  EXPECT_GE(fused, 4);
}

// V-shaped and searched schedules can give up time of their own instead of recomputing.
TEST(RecomputeChoice, IsTheFastestOfThoseTriedForSchedulesMadeForALimit) {
  config::Strategy strategy = strategy_of(schedule::mode_of("auto"), 2, 1);
  const int64_t peak = peak_of(plan_of(strategy));
  strategy.memory_limit_bytes = peak / 2;
  const auto time_of = [](const RunPlan& plan) {
    return schedule::simulate(plan.compute, plan.durations).step_time;
  };
  const RunPlan kept = plan_of(strategy);
  strategy.recompute = Recomputation::kFull;
  const RunPlan full = plan_of(strategy);
  strategy.recompute = Recomputation::kAuto;
  const RunPlan chosen = plan_of(strategy);
  EXPECT_LE(peak_of(chosen), peak / 2);
  EXPECT_LE(time_of(chosen), time_of(kept));
  EXPECT_LE(time_of(chosen), time_of(full));
}

TEST(RecomputeChoice, TheLeastLimitIsNamedAndSuffices) {
  config::Strategy strategy = strategy_of(schedule::mode_of("ZBH1"), 2, 1);
  strategy.recompute = Recomputation::kAuto;
  strategy.memory_limit_bytes = 1000;
  std::string message;
  try {
    plan_of(strategy);
  } catch (const ConfigError& error) {
    message = error.what();
  }
  std::smatch found;
  ASSERT_TRUE(std::regex_search(message, found, std::regex("the least limit is ([0-9]+)"))) << message;
  EXPECT_THAT(message, HasSubstr("ZBH1 still keeps"));
  strategy.memory_limit_bytes = std::stoll(found[1]);
  EXPECT_EQ(peak_of(plan_of(strategy)), *strategy.memory_limit_bytes);
  strategy.memory_limit_bytes = std::stoll(found[1]) - 1;
  EXPECT_THROW(plan_of(strategy), ConfigError);
  strategy.early_weight_gradients = true;
  EXPECT_NO_THROW(plan_of(strategy)) << "as the message says";
  strategy.memory_limit_bytes.reset();
  EXPECT_THROW(plan_of(strategy), ConfigError) << "there is nothing to choose by";
}

TEST(RecomputeChoice, ExemptLayersAreNotRecomputedAndThePlanSaysWhatIs) {
  config::Strategy strategy = strategy_of(schedule::mode_of("1F1B"), 2, 1);
  strategy.recompute = Recomputation::kFull;
  strategy.no_recompute_layers = {0, 3};
  strategy.memory_limit_bytes = peak_of(plan_of(strategy));
  strategy.recompute = Recomputation::kAuto;
  const RunPlan plan = plan_of(strategy);
  EXPECT_EQ(plan.recompute[0], Recomputation::kNone);
  EXPECT_EQ(plan.recompute[1], Recomputation::kFull);
  EXPECT_THAT(plan_text(plan), Contains("recomputed in the backward pass: full: decoder layer 1"))
      << "rank 1 keeps fewer microbatches";
}

TEST(RecomputeChoice, UnknownMemoryIsRejected) {
  layers::ModelSpec model = model::llama_spec(four_layers());
  for (layers::LayerSpec& layer : model.layers) {
    if (layer.kind == "mlp") layer.saved_bytes = nullptr;
  }
  EXPECT_THAT(
      [&] { make_run_plan({.recompute = Recomputation::kAuto, .memory_limit_bytes = 1000}, {}, model); },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("those of kind mlp do not state it")));
}

TEST(RecomputeChoice, TrainsToTheSameBits) {
  tensor::install_cpu_allocator();
  const RunResult expected = run_case({.pp = 2, .mode = "ZBH1", .microbatches = 4});
  RunCase c = {.pp = 2, .mode = "ZBH1", .microbatches = 4};
  const auto peak = [&](const std::string& recompute) {
    c.recompute = recompute;
    const config::RunOptions run = config::run_options(options_of(c, "unused"));
    return peak_of(make_run_plan(run.strategy, run.training, model::llama_spec(tiny_model(false))));
  };
  c.memory_limit = (peak("full") + peak("")) / 2;
  c.recompute = "auto";
  const RunResult got = run_case(c);
  EXPECT_THAT(got.lines, Contains(HasSubstr("core_attn: decoder layers 1 to 4")));
  expect_same_bits(got, expected);
}

}  // namespace
}  // namespace braid::train
