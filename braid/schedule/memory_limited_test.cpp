#include "braid/schedule/memory_limited.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/check.h"
#include "braid/schedule/cost.h"
#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

// Profiled times and the bubble rates that go with them: arXiv:2401.10241, tables 9 and 5. What is kept of a
// layer and microbatch, in s b: M_B = 34 h + 5 a s and M_W = 32 h, for the models of table 3 with s = 1024;
// a limit of p or 2p counts M_B of a whole stage.
struct Published {
  const char* model;
  int64_t heads;
  int64_t hidden;
  int32_t ranks;
  int32_t microbatches;
  double forward_ms;
  double backward_input_ms;
  double backward_weight_ms;
  double communication_ms;
  double bubble_zb1p;
  double bubble_zb2p;
};
constexpr Published kPublished[] = {
    {"1.5B", 24, 2304, 8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.0433},
    {"1.5B", 24, 2304, 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1242, 0.0039},
    {"1.5B", 24, 2304, 8, 64, 18.546, 18.097, 9.321, 0.762, 0.0674, 0.0026},
    {"6.2B", 32, 4096, 8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0029},
    {"6.2B", 32, 4096, 8, 32, 29.802, 29.428, 19.53, 0.577, 0.1045, 0.0022},
    {"6.2B", 32, 4096, 8, 64, 29.935, 29.621, 19.388, 0.535, 0.0554, 0.001},
    {"14.6B", 40, 5120, 16, 48, 11.347, 11.248, 8.132, 0.377, 0.1397, 0.0066},
    {"14.6B", 40, 5120, 16, 64, 11.307, 11.254, 8.101, 0.379, 0.1088, 0.0054},
    {"14.6B", 40, 5120, 16, 128, 11.325, 11.308, 8.109, 0.378, 0.0576, 0.0028},
    {"28.3B", 48, 6144, 32, 96, 10.419, 10.207, 7.715, 0.408, 0.1421, 0.0038},
    {"28.3B", 48, 6144, 32, 128, 10.408, 10.204, 7.703, 0.408, 0.1106, 0.0029},
    {"28.3B", 48, 6144, 32, 256, 10.402, 10.248, 7.698, 0.46, 0.0594, 0.0018},
};

TEST(MemoryLimited, NoMoreBubbleThanPublished) {
  for (const Published& row : kPublished) {
    const StageMemory kept = {.forward_to_backward = 34 * row.hidden + 5 * row.heads * 1024,
                              .backward_to_weight = 32 * row.hidden};
    Workload workload = {.durations = {.stages = {{.forward = Milliseconds(row.forward_ms),
                                                   .backward_input = Milliseconds(row.backward_input_ms),
                                                   .backward_weight = Milliseconds(row.backward_weight_ms)}},
                                       .communication = Milliseconds(row.communication_ms)},
                         .memory = {.stages = {kept}}};
    for (int32_t times = 1; times <= 2; ++times) {
      SCOPED_TRACE(testing::Message() << row.model << " m " << row.microbatches << " limit " << times << "p");
      workload.memory_limit = int64_t{times} * row.ranks * kept.forward_to_backward;
      const auto t0 = std::chrono::steady_clock::now();
      const Schedule schedule =
          memory_limited({.ranks = row.ranks, .microbatches = row.microbatches}, workload);
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
      check(schedule);
      const double rate = simulate(schedule, workload.durations).bubble_rate;
      const double published = times == 1 ? row.bubble_zb1p : row.bubble_zb2p;
      std::printf("%s p%d m%d L%dp pub %.4f got %.5f  %.2fs\n", row.model, row.ranks, row.microbatches, times,
                  published, rate, s);
      EXPECT_LE(std::round(rate * 1e4), std::round(published * 1e4));
      EXPECT_LE(cost_of(schedule, workload).peak_memory, *workload.memory_limit);
    }
  }
}

}  // namespace
}  // namespace braid::schedule
