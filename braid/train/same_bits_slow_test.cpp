// The same bits for every schedule, with every number of microbatches up to 8.
#include <gtest/gtest.h>

#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"

namespace braid::train {
namespace {

class SameBitsEverywhere : public ::testing::TestWithParam<std::tuple<int64_t, bool>> {
 protected:
  SameBitsEverywhere() { tensor::install_cpu_allocator(); }
};

TEST_P(SameBitsEverywhere, ForEveryScheduleOnEveryPipeline) {
  const auto [microbatches, bf16] = GetParam();
  EXPECT_GE(expect_same_bits_for_every_schedule(microbatches, bf16), 3 * 10);
}

INSTANTIATE_TEST_SUITE_P(Microbatches, SameBitsEverywhere,
                         ::testing::Combine(::testing::Range<int64_t>(1, 9), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
