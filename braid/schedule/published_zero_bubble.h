// The settings and results of the zero-bubble paper, for tests.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// Profiled times and the bubble rates that go with them, to four digits.
/// Source: Qi et al. 2023, arXiv:2401.10241, tables 3 (with sequences of 1024), 5 and 9.
struct PublishedZeroBubble {
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

  /// With what a stage keeps of a microbatch, but for the factor that all stages share: M_B = 34 h + 5 a s
  /// and M_W = 32 h. The limit is `limit` microbatches of M_B.
  Workload workload(int32_t limit) const {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    const StageMemory kept = {.forward_to_backward = 34 * hidden + 5 * heads * 1024,
                              .backward_to_weight = 32 * hidden};
    return {.durations = {.stages = {{.forward = Milliseconds(forward_ms),
                                      .backward_input = Milliseconds(backward_input_ms),
                                      .backward_weight = Milliseconds(backward_weight_ms)}},
                          .communication = Milliseconds(communication_ms)},
            .memory = {.stages = {kept}},
            .memory_limit = limit * kept.forward_to_backward};
  }
};

inline constexpr std::array kPublishedZeroBubble = {
    PublishedZeroBubble{"1.5B", 24, 2304, 8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.0433},
    PublishedZeroBubble{"1.5B", 24, 2304, 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1242, 0.0039},
    PublishedZeroBubble{"1.5B", 24, 2304, 8, 64, 18.546, 18.097, 9.321, 0.762, 0.0674, 0.0026},
    PublishedZeroBubble{"6.2B", 32, 4096, 8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0029},
    PublishedZeroBubble{"6.2B", 32, 4096, 8, 32, 29.802, 29.428, 19.53, 0.577, 0.1045, 0.0022},
    PublishedZeroBubble{"6.2B", 32, 4096, 8, 64, 29.935, 29.621, 19.388, 0.535, 0.0554, 0.001},
    PublishedZeroBubble{"14.6B", 40, 5120, 16, 48, 11.347, 11.248, 8.132, 0.377, 0.1397, 0.0066},
    PublishedZeroBubble{"14.6B", 40, 5120, 16, 64, 11.307, 11.254, 8.101, 0.379, 0.1088, 0.0054},
    PublishedZeroBubble{"14.6B", 40, 5120, 16, 128, 11.325, 11.308, 8.109, 0.378, 0.0576, 0.0028},
    PublishedZeroBubble{"28.3B", 48, 6144, 32, 96, 10.419, 10.207, 7.715, 0.408, 0.1421, 0.0038},
    PublishedZeroBubble{"28.3B", 48, 6144, 32, 128, 10.408, 10.204, 7.703, 0.408, 0.1106, 0.0029},
    PublishedZeroBubble{"28.3B", 48, 6144, 32, 256, 10.402, 10.248, 7.698, 0.46, 0.0594, 0.0018},
};

}  // namespace braid::schedule
