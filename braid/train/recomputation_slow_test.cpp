// Recomputation and early weight gradients under every kind of schedule: the bits of training without them.
#include <gtest/gtest.h>

#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

class RecomputationOf : public ::testing::TestWithParam<std::string> {};

// Whatever is recomputed, under every kind of schedule: fused and split backwards, one chunk and several.
TEST_P(RecomputationOf, SameBitsUnderEverySchedule) {
  tensor::install_cpu_allocator();
  for (const int mp : {1, 2}) {
    RunCase base = {.pp = 1, .mode = "FThenB", .microbatches = 8, .bf16 = mp == 2, .mp = mp};
    base.sequence_parallel = mp == 2;
    const RunResult expected = run_case(base);
    int runs = 0;
    for (const auto& [mode, chunks] : {std::pair("FThenB", 1),
                                       {"1F1B", 1},
                                       {"Eager1F1B", 1},
                                       {"ZBH1", 1},
                                       {"ZBH1-fused", 1},
                                       {"VPP", 2},
                                       {"InterleavedZB", 2},
                                       {"DualPipeV", 2},
                                       {"ZBVPP", 2},
                                       {"V-Half", 2},
                                       {"V-Min", 2},
                                       {"auto", 2}}) {
      for (const int pp : {2, 4}) {
        if (pp * mp > 4) continue;
        RunCase c = base;
        c.pp = pp;
        c.mode = mode;
        c.chunks = chunks;
        c.recompute = GetParam();
        if (++runs % 2 == 0) c.no_recompute_layers = {0, 3, 8};
        c.early_weight_gradients = runs % 3 != 0;
        SCOPED_TRACE(::testing::PrintToString(c));
        expect_same_bits(run_case(c), expected);
      }
    }
    EXPECT_EQ(runs, mp == 1 ? 24 : 12);
  }
}

INSTANTIATE_TEST_SUITE_P(Granularities, RecomputationOf, ::testing::Values("full", "full_attn", "core_attn"));

}  // namespace
}  // namespace braid::train
