// What every rank did in a step, recorded, gathered, and set beside the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/mesh/mesh.h"
#include "braid/pipeline/executor.h"
#include "braid/report/timeline.h"
#include "braid/schedule/simulate.h"
#include "braid/train/run_plan.h"

namespace braid::train {

/// Keeps the times of a rank's actions.
class ActionRecorder final : public pipeline::Observer {
 public:
  void after(const schedule::Action& action, const pipeline::ActionTimes& times) override;

  /// In seconds of the system's steady clock, which the processes of one machine share.
  const std::vector<report::ActionRecord>& records() const { return records_; }

 private:
  std::vector<report::ActionRecord> records_;
};

/// What all ranks did in one step.
struct StepProfile {
  mesh::MeshShape mesh;
  /// One for each place on the other axes than pp, mp innermost, then sharding, then dp.
  std::vector<report::Timeline> pipelines;

  const report::Timeline& at(const mesh::Coordinates& place) const;
};

/// The step that `recorder` has seen of the plan's schedule, of all ranks, on every rank. Collective over
/// `world`. Across machines, whose clocks differ, the ranks' times are not comparable.
StepProfile gather_profile(const ActionRecorder& recorder, const RunPlan& plan, comm::Communicator& world);

/// The times of each stage: the mean of F, B, I, W and the update over microbatches and pipelines; what a
/// schedule never runs apart (I and W, or the fused B) is the sum of its parts or half of it. Messages take
/// what the fastest one took from the start of its send to the moment its receiver had it, having waited for
/// it; 0 if nobody ever waited. Exchanges take what the fastest one took from the moment when all its ranks
/// had started it, and the one before it on its axis was known to have ended, to the end of its wait: at
/// most, as no rank knows when something ended that it did not wait for.
schedule::Durations measured_durations(const StepProfile& profile);

/// Writes step-<n>.trace.json, step-<n>.svg and step-<n>.times.json into `folder`, made if missing: the trace
/// of all ranks for Perfetto; the pipeline of rank 0 as measured under the one that simulate plans with the
/// step's own durations; and those. Returns a line for the log that compares the two. Throws DataError if a
/// file cannot be written.
std::string write_profile(const StepProfile& profile, const std::filesystem::path& folder, int64_t step);

}  // namespace braid::train
