// Everything that is decided before a run does anything: how the model is cut into stages, where they are,
// what every rank does in a step, and what that takes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/base/exact_sum.h"
#include "braid/comm/communicator.h"
#include "braid/comm/pipeline_link.h"
#include "braid/config/strategy.h"
#include "braid/config/training_options.h"
#include "braid/layers/layer_spec.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"
#include "braid/train/rank_model.h"

namespace braid::train {

/// How many int64 numbers each rank contributes to the one all-gather of a step: see TrainingStep.
inline constexpr int64_t kStepExchangeNumel = 7 + 2 * static_cast<int64_t>(ExactSum::kWords);

/// A weight that two layers use.
struct PlannedTie {
  std::vector<tensor::TensorSlice> slices;
  schedule::TiedStages stages;
  int32_t first_rank = 0;
  int32_t last_rank = 0;

  int64_t whole_numel() const;  ///< of all mp ranks together
  bool is_local() const { return first_rank == last_rank; }
};

/// Bytes that a rank holds while it trains. What a layer needs only while it is at work comes on top.
struct PlannedMemory {
  int64_t weights = 0;  ///< padding between parameters included, here and in the next two
  int64_t gradients = 0;
  int64_t optimizer_states = 0;  ///< on the device; see offloaded_states
  int64_t kept_activations = 0;  ///< for backward passes: the most after any action of a step
  int64_t buffers =
      0;  ///< of tensors on their way between stages, the most after any action; and constant ones
  int64_t segments = 0;  ///< values and gradients that are whole only while they are used, and what their
                         ///< messages need: the most after any action

  int64_t sum() const {
    return weights + gradients + optimizer_states + kept_activations + buffers + segments;
  }

  int64_t offloaded_states = 0;  ///< not on the device and not in the sum: in host memory or in a file

  friend bool operator==(const PlannedMemory&, const PlannedMemory&) = default;
};

/// The part of one rank of the pipeline and of the mp group; all data ranks have the same.
struct RankPlan {
  std::vector<int32_t> stages;  ///< ascending: those of its chunks
  int64_t parameters = 0;       ///< a weight that two layers use counts once on a rank
  int64_t tied_numel = 0;  ///< of the tied weight's gradient, what the rank has the sum of, padding included
  PlannedMemory memory;
  comm::MessageTraffic messages;  ///< over the pipeline's links in a training step; evaluations come on top
  /// What it sends over each axis in a training step, where all members of a group send alike.
  std::map<mesh::Axis, comm::CollectiveTraffic> collectives;
};

/// What the durations of a plan's stages are.
enum class TimeSource : uint8_t {
  kGiven,
  kMeasured,  ///< in seconds
  kFlops,     ///< in proportion to matrix products; 1 is F of a microbatch through an average rank's layers
};

/// The same on every rank that was given the same.
struct RunPlan {
  config::Strategy strategy;
  c10::DeviceType device = c10::kCPU;
  config::TrainingOptions training;
  layers::ModelSpec model;                           ///< with recomputation
  std::vector<config::Recomputation> recompute;      ///< of each decoder layer; empty if none is recomputed
  schedule::Schedule compute;                        ///< compute actions only
  schedule::Schedule step;                           ///< what the executor runs
  std::vector<tensor::Range> stage_layers;           ///< which of the layers each stage holds
  schedule::Memory memory_bytes;                     ///< what each stage keeps of a microbatch
  std::vector<std::string> kinds_of_unknown_memory;  ///< layers of these kinds do not say what they keep
  std::optional<PlannedTie> tied;                    ///< where the model has one
  schedule::Durations durations;                     ///< of each stage
  TimeSource time_source = TimeSource::kFlops;
  std::vector<RankPlan> ranks;  ///< of the pipeline, each with its ranks of the mp group: see rank_at

  int32_t stages() const { return compute.shape.stages(); }
  int32_t first_rank() const { return schedule::place_of(compute, 0).rank; }
  int32_t last_rank() const { return schedule::place_of(compute, stages() - 1).rank; }

  const RankPlan& rank_at(const mesh::Coordinates& coordinates) const;

  /// A microbatch as a rank of the mp group sees it.
  cost::MicrobatchShape microbatch(int32_t mp_index = 0) const;

  /// Ranks that train on microbatches of their own.
  int64_t data_ranks() const { return int64_t{strategy.mesh.sharding} * strategy.mesh.dp; }
  int64_t samples_per_step() const { return training.samples_per_step() * data_ranks(); }

  /// The layers of a stage.
  std::span<const layers::LayerSpec> layers_of(int32_t stage) const;

  /// The layers of a rank's stages.
  std::vector<std::span<const layers::LayerSpec>> layers_of_rank(int32_t rank) const;

  /// How the parameters of any rank are laid out, and what one with this place holds of them all the time.
  LayoutOptions layout() const;
  tensor::SegmentHolding holding(const mesh::Coordinates& coordinates) const;
};

/// How long a layer of each kind takes on a microbatch, for schedules that depend on it.
struct PartTimes {
  std::map<std::string, schedule::StageTimes> kinds;
  schedule::Seconds communication{0.0};

  friend bool operator==(const PartTimes&, const PartTimes&) = default;
};

/// Whether a run's schedule depends on times that have to be measured: the strategy names a mode that
/// depends on times, and does not give them.
bool needs_times(const config::Strategy& strategy);

/// The plan of training `model` on devices of type `device`. Pure and local. A schedule that depends on times
/// gets the strategy's, or else `measured`, or else times in proportion to FLOPs. Throws ConfigError where
/// the schedule does not suit the pipeline or the microbatches, a limit cannot be kept, the model has too few
/// layers, an anchor is no layer, recomputation cannot be carried out, or layers share weights in another way
/// than two of them sharing one.
RunPlan make_run_plan(const config::Strategy& strategy, const config::TrainingOptions& training,
                      const layers::ModelSpec& model, const PartTimes& measured = {},
                      c10::DeviceType device = c10::kCPU);

/// The directions in which activations and gradients flow between the ranks of `schedule`, ascending.
std::vector<comm::Edge> edges_of(const schedule::Schedule& schedule);

/// Which layers each of `stages` stages holds, all of them in order, such that the most expensive stage costs
/// as little as possible (cost::partition) for sequences as in `shape`.
std::vector<tensor::Range> cut_into_stages(std::span<const layers::LayerSpec> layers,
                                           const cost::MicrobatchShape& shape, int64_t stages);

/// The dtype of `precision`'s weights and activations.
at::ScalarType dtype_of(config::Precision precision);

}  // namespace braid::train
