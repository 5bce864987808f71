// Schedules run for real on ranks that wait instead of computing.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "braid/comm/world.h"
#include "braid/pipeline/emulation.h"
#include "braid/pipeline/executor.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/workload.h"

namespace braid::train {

/// One schedule to emulate.
struct EmulatedSchedule {
  schedule::Schedule compute;
  schedule::Durations durations;
  schedule::Memory memory_bytes{.stages = {{.forward_to_backward = 0, .backward_to_weight = 0}}};
};

struct EmulationOptions {
  int64_t steps = 3;  ///< of each schedule
  schedule::ReceivePosting receives = schedule::ReceivePosting::kJustInTime;
  int64_t message_numel = 1;  ///< float64 elements of what stages hand to one another
  double grace =
      pipeline::EmulatedClock::kDefaultGrace;  ///< a share of each action, see pipeline::EmulatedClock
  std::chrono::milliseconds timeout{300'000};
};

/// What the ranks of one schedule measured; times are medians over the steps.
struct EmulationResult {
  std::string name;
  schedule::Seconds step_time{0};             ///< from the first start to the last end of a compute action
  schedule::Seconds longest_span{0};          ///< as in schedule::Simulation
  double bubble_rate = 0;                     ///< as in schedule::Simulation
  schedule::Seconds interval{0};              ///< of the wall clock, from one step's start to the next one's
  schedule::Seconds delays{0};                ///< beyond noise, summed over ranks, of the step with the most
  schedule::Seconds noise{0};                 ///< the most that any action saw and that was taken out
  std::vector<int64_t> max_memory_allocated;  ///< bytes, of each rank
};

/// Runs each schedule for `steps` steps with pipeline::EmulatedChunk, all ranks of `world` being its
/// pipeline, and returns the same results on every rank. `observer` may be null. Collective over the world.
/// Throws ConfigError if the world is not of the schedules' size or spans several machines (their clocks
/// differ), and what the executor throws.
std::vector<EmulationResult> emulate(const std::vector<EmulatedSchedule>& schedules,
                                     const EmulationOptions& options, const comm::World& world,
                                     const c10::intrusive_ptr<c10d::Store>& store,
                                     const std::string& gloo_interface = "",
                                     pipeline::Observer* observer = nullptr);

}  // namespace braid::train
