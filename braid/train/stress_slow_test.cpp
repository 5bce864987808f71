// Nothing hangs: messages that no socket's buffer can hold.
#include <gtest/gtest.h>

#include "braid/schedule/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/stress_test_support.h"

namespace braid::train {
namespace {

using schedule::ReceivePosting;

TEST(Stress, MessagesOf16MiBArrive) {
  tensor::install_cpu_allocator();
  std::mt19937 random(1);
  std::vector<EmulatedSchedule> schedules;
  for (const char* mode : {"1F1B", "ZBH1", "ZBVPP", "DualPipeV"}) {
    const int32_t chunks = schedule::mode_of(mode).chunks.value();
    schedules.push_back(
        {.compute = schedule::generate(mode, {.ranks = 4, .chunks_per_rank = chunks, .microbatches = 8}),
         .durations = random_durations(random, 4 * chunks)});
  }
  for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
    SCOPED_TRACE(testing::Message() << "early receives " << (receives == ReceivePosting::kEarly));
    expect_runs(schedules, receives, 2 << 20);
  }
}

}  // namespace
}  // namespace braid::train
