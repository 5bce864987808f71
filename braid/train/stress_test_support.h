// For tests: many schedules on ranks that are threads and hardly take time.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/train/emulate.h"

namespace braid::train {

/// Any order that data allows, drawn by chance: of all compute actions that could run next anywhere, one at a
/// time, on stages placed by chance. Weight gradients ascend; backwards are fused or split.
schedule::Schedule random_schedule(std::mt19937& random, const schedule::PipelineShape& shape);

/// Stages that take between nothing and 0.2 ms for each action, drawn by chance.
schedule::Durations random_durations(std::mt19937& random, int32_t stages);

/// Runs `schedules`, all of one number of ranks, one after another on the same links. A message that does not
/// come within 10 s is a failure of the test.
void expect_runs(const std::vector<EmulatedSchedule>& schedules, schedule::ReceivePosting receives,
                 int64_t message_numel);

}  // namespace braid::train
