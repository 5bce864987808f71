// For tests: made-up schedules and measured steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "braid/base/random.h"
#include "braid/report/timeline.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::report {

/// Two ranks with two chunks each in a V, one microbatch, backwards split.
inline schedule::Schedule v_schedule() {
  using schedule::parse_actions;
  return {.name = "V",
          .shape = {.ranks = 2, .chunks_per_rank = 2},
          .placement = schedule::Placement::kV,
          .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 I0 W0"), parse_actions("F0 F0c1 I0c1 I0 W0c1 W0")}};
}

/// The measured step that agrees with `simulation`, `offset` later: each rank reaches its next action as soon
/// as the previous one ends, and waits there.
inline Timeline undisturbed(const schedule::Schedule& schedule, const schedule::Simulation& simulation,
                            schedule::Seconds offset) {
  Timeline timeline = {.schedule = schedule};
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<ActionRecord>& records = timeline.ranks.emplace_back();
    schedule::Seconds now = offset;
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const auto [start, end] = simulation.ranks[rank][i];
      records.push_back({.action = schedule.ranks[rank][i],
                         .begin = std::min(now, start + offset),
                         .ready = start + offset,
                         .end = end + offset});
      now = records.back().end;
    }
  }
  return timeline;
}

/// 1F1B with messages, each stage a little slower than the previous one.
inline Timeline slowing_step(int32_t ranks, int32_t microbatches) {
  using schedule::Seconds;
  const schedule::Schedule schedule =
      lower(schedule::generate("1F1B", {.ranks = ranks, .microbatches = microbatches}), {});
  schedule::Durations durations = {.stages = {}, .communication = Seconds(0.0007)};
  for (int32_t stage = 0; stage < ranks; ++stage) {
    const auto random = static_cast<double>(philox(7, static_cast<uint64_t>(stage))[0]) / 4294967296.0;
    durations.stages.push_back({.forward = Seconds(0.010 + 0.002 * random),
                                .backward_input = Seconds(0.011 + 0.001 * stage),
                                .backward_weight = Seconds(0.009)});
  }
  return undisturbed(schedule, simulate(schedule, durations), Seconds(1234.5));
}

}  // namespace braid::report
