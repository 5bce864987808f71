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

/// When gradients are reduced over the sharding axis.
enum class ReduceTiming : uint8_t {
  kStep,        ///< a segment once a step, after its last microbatch
  kMicrobatch,  ///< a segment after each microbatch
};

/// What is computed again in the backward pass in place of being kept since the forward pass.
enum class Recomputation : uint8_t {
  kNone,
  kCoreAttention,  ///< attention without its projections: softmax(QK^T)V
  kFullAttention,  ///< attention with its projections
  kFull,           ///< the whole decoder layer
  kAuto,           ///< of each decoder layer the least with which its rank keeps memory_limit_bytes
};

/// Switches the strands of parallelism on and off, each alone: an axis of degree 1 is off. The comments give
/// Paddle's keys (docs/strategy.md).
struct Strategy {
  mesh::MeshShape mesh;  ///< mp_degree, sharding_degree, pp_degree, dp_degree

  /// ZeRO's stage, 0 to 3: what is divided over the sharding axis. 0: nothing; 1: optimizer states; 2: also
  /// gradients; 3: also weights. Without effect where mesh.sharding is 1. Key: stage.
  int32_t sharding_stage = 1;
  /// Unset: see reduce_timing. Key: pp_allreduce_in_optimize, which is kStep.
  std::optional<ReduceTiming> sharding_reduce;
  bool sequence_parallel = false;   ///< norms are divided along the sequence over the mp axis
  bool offloads_optimizer = false;  ///< master weights and moments live outside the device: optimize_offload
  std::string offload_dir;          ///< of their file. Empty: pinned host memory on GPUs, output_dir on CPUs

  Recomputation recompute = Recomputation::kNone;
  std::vector<int64_t> no_recompute_layers;  ///< decoder layers, counted from 0, that keep what they compute
  /// A backward that is split (B and W apart) computes some weight gradients in B, so that less is kept for
  /// W.
  bool early_weight_gradients = false;

  int32_t chunks_per_rank = 1;
  std::string schedule_mode = "1F1B";          ///< one of schedule::modes()
  std::optional<schedule::Schedule> schedule;  ///< compute actions, used in place of a mode
  /// Of the stages, in any unit, with mp > 1 the exchanges within F and I too. Unset: see make_run_plan.
  std::optional<schedule::Durations> durations;
  std::optional<int64_t> memory_limit_bytes;  ///< on what a rank keeps for backward passes
  schedule::ReceivePosting receives = schedule::ReceivePosting::kJustInTime;  ///< enable_send_recv_overlap
  int64_t segment_bytes = int64_t{32} << 20;  ///< see tensor::SegmentCut; key: segment_broadcast_MB
  std::vector<std::string> segment_anchors;   ///< names of layers

  /// sharding_reduce, or its default: once a step for stages 0 and 1, which hold whole gradients, and after
  /// each microbatch for stages 2 and 3, which do not.
  ReduceTiming reduce_timing() const {
    return sharding_reduce.value_or(sharding_stage >= 2 ? ReduceTiming::kMicrobatch : ReduceTiming::kStep);
  }

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

/// Throws ConfigError, naming the field, the rule and the value, for each field that is out of range or
/// contradicts another one: all of them at once. What depends on the model, the schedule or the number of
/// ranks is checked by make_run_plan.
void validate(const Strategy& strategy);

}  // namespace braid::config

namespace braid {

// For programs that use braid as a library: braid::Strategy{.mesh = {.mp = 2, .sharding = 4, .pp = 4}}.
using config::Recomputation;
using config::ReduceTiming;
using config::Strategy;

}  // namespace braid
