// Training with sharding and dp: the promised bits, and one rank's numbers.
#include "braid/train/data_axes_test_support.h"

#include "braid/base/text.h"

namespace braid::train::axes {

using config::ReduceTiming;

TEST_P(DataAxes, StagesZeroAndOneHaveTheSameBitsAndStagesTwoAndThree) {
  for (const mesh::MeshShape& mesh :
       {mesh::MeshShape{.sharding = 2}, {.sharding = 3}, {.sharding = 2, .dp = 2}}) {
    SCOPED_TRACE(mesh::to_string(mesh));
    const Result zero = run(make(strategy_of(mesh, 0)));
    expect_same_bits(run(make(strategy_of(mesh, 1))), zero);
    const Result two = run(make(strategy_of(mesh, 2)));
    expect_same_bits(run(make(strategy_of(mesh, 3))), two);
    expect_close(zero, run(on_one_rank(make(strategy_of(mesh, 0)))), kNormBound, loss_bound());
    expect_close(two, zero, kNormBound, loss_bound());
    for (const int32_t stage : {0, 1}) {
      SCOPED_TRACE(cat("each microbatch, stage ", stage));
      expect_same_bits(run(make(strategy_of(mesh, stage, ReduceTiming::kMicrobatch))), two);
    }
    for (const int32_t stage : {2, 3}) {
      SCOPED_TRACE(cat("once a step, stage ", stage));
      expect_same_bits(run(make(strategy_of(mesh, stage, ReduceTiming::kStep))), zero);
    }
  }
}

TEST_P(DataAxes, BitsDoNotDependOnThePipelineNorOnSegments) {
  for (const int32_t stage : {1, 2, 3}) {
    const Result expected = run(make(strategy_of({.sharding = 2}, stage)));
    for (const int32_t pp : {1, 2, 4}) {
      for (const auto& [mode, chunks] :
           {std::pair("FThenB", 1), {"1F1B", 1}, {"ZBH1", 1}, {"VPP", 2}, {"ZBVPP", 2}}) {
        if (pp * chunks > 4) continue;
        config::Strategy strategy = strategy_of({.sharding = 2, .pp = pp}, stage);
        strategy.schedule_mode = mode;
        strategy.chunks_per_rank = chunks;
        if (pp == 2) strategy.segment_bytes = int64_t{32} << 20;
        SCOPED_TRACE(::testing::PrintToString(make(strategy)));
        expect_same_bits(run(make(strategy)), expected);
      }
    }
  }
}

TEST_P(DataAxes, DpAloneIsOneRanksTraining) {
  const Case two = make(strategy_of({.pp = 2, .dp = 2}, 1));
  expect_close(run(two), run(on_one_rank(two)), kNormBound, loss_bound());
}

// Data ranks whose microbatches have labels for different numbers of tokens still train on the mean over all
// tokens.
TEST_P(DataAxes, TheLossIsOverAllTokensOfAllDataRanks) {
  for (const double max_grad_norm : {0.5, 0.0}) {
    for (const mesh::MeshShape& mesh : {mesh::MeshShape{.sharding = 2, .dp = 2}, {.sharding = 2, .pp = 2}}) {
      Case c = make(strategy_of(mesh, 2));
      c.microbatches = 3;
      c.max_grad_norm = max_grad_norm;
      c.some_labels = true;
      SCOPED_TRACE(cat(::testing::PrintToString(c), ", clipping ", max_grad_norm));
      // Another scale rounds the logits' gradients otherwise, and with them all that follow from them.
      expect_close(run(c), run(on_one_rank(c)), c.bf16 ? 0x1p-8 : 64 * 0x1p-24, loss_bound());
    }
  }
}

// Products are cut: their sums have another order. Everything else is as with one mp rank.
TEST_P(DataAxes, MpIsOneRanksTrainingWithinRounding) {
  const Result expected = run(on_one_rank(make(strategy_of({.mp = 2}, 1))));
  for (const bool sequence_parallel : {false, true}) {
    for (const mesh::MeshShape& mesh : {mesh::MeshShape{.mp = 2}, {.mp = 2, .pp = 2}}) {
      config::Strategy strategy = strategy_of(mesh, 1);
      strategy.sequence_parallel = sequence_parallel;
      strategy.schedule_mode = mesh.pp == 1 ? "1F1B" : "ZBH1";
      SCOPED_TRACE(cat(mesh::to_string(mesh), sequence_parallel ? ", sequence parallel" : ""));
      expect_close_after_other_sums(run(make(strategy)), expected);
    }
  }
}

// With mp, too, neither the pipeline nor the stages change a bit.
TEST_P(DataAxes, AllAxesTogetherKeepThePromises) {
  for (const bool sequence_parallel : {false, true}) {
    using config::Recomputation;
    const auto strategy = [&](mesh::MeshShape mesh, int32_t stage, const char* mode, int32_t chunks,
                              Recomputation recompute = Recomputation::kNone) {
      config::Strategy result = strategy_of(mesh, stage);
      result.sequence_parallel = sequence_parallel;
      result.schedule_mode = mode;
      result.chunks_per_rank = chunks;
      result.recompute = recompute;
      return make(result);
    };
    const auto expect_bits_of = [](const Case& c, const Result& expected) {
      SCOPED_TRACE(::testing::PrintToString(c));
      expect_same_bits(run(c), expected);
    };
    const Result one = run(strategy({.mp = 2, .sharding = 2}, 1, "1F1B", 1));
    expect_bits_of(strategy({.mp = 2, .sharding = 2}, 0, "1F1B", 1), one);
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 1, "ZBH1", 1), one);
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 1, "VPP", 2, Recomputation::kFullAttention),
                   one);
    const Result two = run(strategy({.mp = 2, .sharding = 2}, 2, "1F1B", 1));
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 3, "ZBVPP", 2, Recomputation::kFull), two);
    const Case all = strategy({.mp = 2, .sharding = 2, .pp = 2, .dp = 2}, 1, "VPP", 2);
    expect_close_after_other_sums(run(all), run(on_one_rank(all)));
  }
}

}  // namespace braid::train::axes
