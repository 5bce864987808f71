// How the ranks of a run share its work, in braid's own terms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/mesh/mesh.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/simulate.h"

namespace braid::config {

/// When gradients are added up over the sharding axis.
enum class ReduceTiming : uint8_t { kStep, kMicrobatch };

/// Switches the axes of parallelism on and off. No number that training produces depends on it.
struct Strategy {
  mesh::MeshShape mesh;
  int32_t sharding_stage = 1;  ///< of what each sharding rank has only its part: see schedule::DataAxes
  /// Unset: once a step for stages 0 and 1, with each microbatch for 2 and 3.
  std::optional<ReduceTiming> sharding_reduce = {};
  bool sequence_parallel =
      false;  ///< between layers each mp rank has its part of the rows; no effect where mp is 1
  int32_t chunks_per_rank = 1;
  std::string schedule_mode = "1F1B";            ///< one of schedule::modes()
  std::optional<schedule::Schedule> schedule;    ///< compute actions, used in place of a mode
  std::optional<schedule::Durations> durations;  ///< of the stages, in any unit. Unset: see make_run_plan
  std::optional<int64_t> memory_limit_bytes;     ///< on what a rank keeps for backward passes
  schedule::ReceivePosting receives = schedule::ReceivePosting::kJustInTime;
  int64_t segment_bytes = int64_t{32} << 20;  ///< see tensor::SegmentCut
  std::vector<std::string> segment_anchors;   ///< names of layers

  ReduceTiming reduce_timing() const {
    return sharding_reduce.value_or(sharding_stage >= 2 ? ReduceTiming::kMicrobatch : ReduceTiming::kStep);
  }

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

}  // namespace braid::config
