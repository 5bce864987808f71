// What every rank did in a step, recorded, gathered, and set beside the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/pipeline/executor.h"
#include "braid/report/timeline.h"
#include "braid/schedule/simulate.h"

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

/// All ranks' records of one step of `schedule`, the optimizer step left out, on every rank. Collective over
/// `pipeline`. Across machines, whose clocks differ, the ranks' times are not comparable.
report::Timeline gather_timeline(const ActionRecorder& recorder, const schedule::Schedule& schedule,
                                 comm::Communicator& pipeline);

/// The mean time of F, B, I and W of each stage in the timelines, which must be of schedules with the same
/// stages; what a schedule never runs apart (I and W, or the fused B) is taken from the others, or from the
/// sum of its parts. Messages take what the fastest one took from the start of its send to the moment its
/// receiver had it, having waited for it; 0 if nobody ever waited.
schedule::Durations measured_durations(const std::vector<report::Timeline>& timelines);

/// Writes step-<n>.trace.json and step-<n>.svg into `folder`, made if missing: the trace for Perfetto, and
/// the measured step under the one that simulate plans with the step's own mean durations. Returns a line for
/// the log that compares the two. Throws DataError if a file cannot be written.
std::string write_profile(const report::Timeline& timeline, const std::filesystem::path& folder,
                          int64_t step);

}  // namespace braid::train
