// For tests: the bubble rates in the zero-bubble paper, with the profiled times from which they follow.
// Source: Qi et al. 2023, arXiv:2401.10241, tables 3 (models), 9 (times) and 5 (rates).
#pragma once

#include <cstdint>

#include "braid/schedule/simulate.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

struct PublishedSetting {
  const char* model;
  int64_t heads;
  int64_t hidden;
  int32_t ranks;
  int32_t microbatches;
  double forward_ms;
  double backward_input_ms;
  double backward_weight_ms;
  double communication_ms;
  // Bubble rates, to the digits printed. 1F1B-I is interleaved 1F1B.
  const char* bubble_1f1b;
  const char* bubble_1f1b_i;
  const char* bubble_zb_h1;
  const char* bubble_zb_h2;
  const char* bubble_zb_1p;
  const char* bubble_zb_2p;
};

// clang-format off
inline constexpr PublishedSetting kPublishedSettings[] = {
    // model, a, h, p, m, F, I, W, message, 1F1B, 1F1B-I, ZB-H1, ZB-H2, ZB-1p, ZB-2p
    {"1.5B", 24, 2304, 8, 24, 18.522, 18.086, 9.337, 0.601, "0.2431", "0.1055", "0.1585", "0.1083", "0.1585", "0.0433"},
    {"1.5B", 24, 2304, 8, 32, 18.513, 18.086, 9.331, 0.626, "0.1985", "0.0818", "0.1242", "0.0837", "0.1242", "0.0039"},
    {"1.5B", 24, 2304, 8, 64, 18.546, 18.097, 9.321, 0.762, "0.1240", "0.0443", "0.0674", "0.0444", "0.0674", "0.0026"},
    {"6.2B", 32, 4096, 8, 24, 29.718, 29.444, 19.927, 0.527, "0.2347", "0.0808", "0.1323", "0.0698", "0.1323", "0.0029"},
    {"6.2B", 32, 4096, 8, 32, 29.802, 29.428, 19.53, 0.577, "0.1898", "0.0628", "0.1045", "0.0559", "0.1045", "0.0022"},
    {"6.2B", 32, 4096, 8, 64, 29.935, 29.621, 19.388, 0.535, "0.1091", "0.0320", "0.0554", "0.0294", "0.0554", "0.0010"},
    {"14.6B", 40, 5120, 16, 48, 11.347, 11.248, 8.132, 0.377, "0.2552", "0.1104", "0.1397", "0.0672", "0.1397", "0.0066"},
    {"14.6B", 40, 5120, 16, 64, 11.307, 11.254, 8.101, 0.379, "0.2082", "0.0852", "0.1088", "0.0516", "0.1088", "0.0054"},
    {"14.6B", 40, 5120, 16, 128, 11.325, 11.308, 8.109, 0.378, "0.1251", "0.0445", "0.0576", "0.0266", "0.0576", "0.0028"},
    {"28.3B", 48, 6144, 32, 96, 10.419, 10.207, 7.715, 0.408, "0.2646", "0.1493", "0.1421", "0.0641", "0.1421", "0.0038"},
    {"28.3B", 48, 6144, 32, 128, 10.408, 10.204, 7.703, 0.408, "0.2168", "0.1164", "0.1106", "0.0490", "0.1106", "0.0029"},
    {"28.3B", 48, 6144, 32, 256, 10.402, 10.248, 7.698, 0.46, "0.1352", "0.0624", "0.0594", "0.0257", "0.0594", "0.0018"},
};
// clang-format on

/// The setting's times, the same for every stage.
inline Durations durations_of(const PublishedSetting& setting) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return {.stages = {{.forward = Milliseconds(setting.forward_ms),
                      .backward_input = Milliseconds(setting.backward_input_ms),
                      .backward_weight = Milliseconds(setting.backward_weight_ms)}},
          .communication = Milliseconds(setting.communication_ms)};
}

/// The setting with what a stage keeps of a microbatch of 1024 tokens, except for the factor that all stages
/// share: M_B = 34 h + 5 a s and M_W = 32 h. The limit is `limit` microbatches of M_B.
inline Workload workload_of(const PublishedSetting& setting, int32_t limit) {
  const StageMemory kept = {.forward_to_backward = 34 * setting.hidden + 5 * setting.heads * 1024,
                            .backward_to_weight = 32 * setting.hidden};
  return {.durations = durations_of(setting),
          .memory = {.stages = {kept}},
          .memory_limit = limit * kept.forward_to_backward};
}

}  // namespace braid::schedule
