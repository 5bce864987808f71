// How a run's model is cut into stages, where they are, and what every rank does in a step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/comm/pipeline_link.h"
#include "braid/config/options.h"
#include "braid/layers/layer_spec.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::train {

/// What each rank tells the others at the end of a step beside its parameters' norms: see TrainingStep.
inline constexpr int64_t kExchangedNumbers = 7;

/// A weight that two layers on two stages use.
struct PlannedTie {
  std::vector<tensor::TensorSlice> slices;
  schedule::TiedStages stages;
  int32_t first_rank = 0;
  int32_t last_rank = 0;

  int64_t numel() const;
};

/// The same on every rank that was given the same.
struct PipelinePlan {
  schedule::Schedule compute;  ///< compute actions only
  schedule::Schedule step;     ///< what the executor runs
  std::vector<layers::LayerSpec> layers;
  std::vector<tensor::Range> stage_layers;  ///< which of the layers each stage holds
  schedule::Memory memory_bytes;            ///< what each stage keeps of a microbatch
  std::optional<PlannedTie> tied;           ///< where the model has one
  std::vector<int64_t>
      stage_norms;  ///< parameters of each stage that count in the norm; a tied one with the first

  int32_t ranks() const { return compute.shape.ranks; }
  int32_t stages() const { return compute.shape.stages(); }

  /// The stages on a rank, ascending: those of its chunks.
  std::vector<int32_t> stages_of(int32_t rank) const;

  int32_t first_rank() const { return schedule::place_of(compute, 0).rank; }
  int32_t last_rank() const { return schedule::place_of(compute, stages() - 1).rank; }

  /// The layers of a stage.
  std::span<const layers::LayerSpec> layers_of(int32_t stage) const;

  /// The layers of a rank's stages.
  std::vector<std::span<const layers::LayerSpec>> layers_of_rank(int32_t rank) const;
};

/// What layers of each kind take on a microbatch, for schedules that arrange for it.
struct PartTimes {
  std::map<std::string, schedule::StageTimes> kinds;
  schedule::Seconds communication{0.0};

  friend bool operator==(const PartTimes&, const PartTimes&) = default;
};

/// Whether the run's schedule depends on times that have to be measured: the options name a mode that
/// arranges for them, and do not give them.
bool needs_times(const config::PretrainOptions& options);

/// The plan that `options` ask for, for a model of `layers`. `measured` is used where needs_times says so.
/// Throws ConfigError where the schedule does not suit the pipeline, a CSV file is invalid or does not fit, a
/// limit cannot be kept, the model has too few layers, or layers share weights in another way than two of
/// them sharing one.
PipelinePlan make_plan(const config::PretrainOptions& options, std::vector<layers::LayerSpec> layers,
                       const PartTimes& measured);

/// The directions in which activations and gradients flow between the ranks of `schedule`, ascending.
std::vector<comm::Edge> edges_of(const schedule::Schedule& schedule);

/// What one training step sends and receives over the pipeline's links at `rank`: an activation and a
/// gradient for each microbatch and boundary between stages of two ranks, and a tied weight's gradient both
/// ways. `microbatch` as the run has it; `hidden` is the width of what stages hand on. Evaluations come on
/// top.
comm::MessageTraffic step_messages(const PipelinePlan& plan, int32_t rank,
                                   const cost::MicrobatchShape& microbatch, int64_t hidden);

/// The float64 numbers that each rank gives to the one all-gather of a step.
int64_t step_exchange_numel(const PipelinePlan& plan);

/// Which layers each of `stages` stages holds, all of them in order, such that the most expensive stage costs
/// as little as possible (cost::partition) for sequences as in `shape`.
std::vector<tensor::Range> cut_into_stages(std::span<const layers::LayerSpec> layers,
                                           const cost::MicrobatchShape& shape, int64_t stages);

}  // namespace braid::train
