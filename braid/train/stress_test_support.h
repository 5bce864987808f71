// For tests: many schedules on ranks that are threads and compute next to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/train/emulate.h"

namespace braid::train {

/// Stages that take between nothing and 0.2 ms for each action, drawn at random.
schedule::Durations random_durations(std::mt19937& random, int32_t stages);

/// Runs `schedules`, all of one number of ranks, one after another on the same links. A message that does not
/// come within 30 s is a failure of the test.
void expect_runs(const std::vector<EmulatedSchedule>& schedules, schedule::ReceivePosting receives,
                 int64_t message_numel);

/// Every mode of schedule::generate, wherever it supports the shape, for these numbers of ranks and
/// microbatches with 1 to 3 chunks, with receives just in time and early. Actions take no time. Returns how
/// many runs that were.
size_t expect_modes_run(const std::vector<int32_t>& ranks, const std::vector<int32_t>& microbatches);

/// So many schedules drawn at random, each written as CSV and read again, proved by check, and run: on up to
/// 5 ranks with up to 3 chunks placed by chance, in any order that data allows. Returns how often each kind
/// of placement came up.
std::map<schedule::Placement, int> expect_random_schedules_run(int count, uint32_t seed);

}  // namespace braid::train
