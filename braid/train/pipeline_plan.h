// How a run's model is cut into stages, where they are, and what every rank does in a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "braid/comm/pipeline_link.h"
#include "braid/config/model_config.h"
#include "braid/config/options.h"
#include "braid/cost/partition.h"
#include "braid/cost/saved_bytes.h"
#include "braid/model/llama.h"
#include "braid/schedule/schedule.h"
#include "braid/schedule/workload.h"

namespace braid::train {

/// The same on every rank that was given the same.
struct PipelinePlan {
  schedule::Schedule compute;             ///< compute actions only
  schedule::Schedule step;                ///< what the executor runs
  std::vector<cost::StageLayers> layers;  ///< of each stage
  schedule::Memory memory_bytes;          ///< what each stage keeps of a microbatch

  int32_t ranks() const { return compute.shape.ranks; }
  int32_t stages() const { return compute.shape.stages(); }

  /// The stages on a rank, ascending: those of its chunks.
  std::vector<int32_t> stages_of(int32_t rank) const;

  int32_t first_rank() const { return schedule::place_of(compute, 0).rank; }
  int32_t last_rank() const { return schedule::place_of(compute, stages() - 1).rank; }

  /// What `stage` holds of the model: the embedding goes with the first, the head with the last.
  model::StageRange range_of(int32_t stage) const;
};

/// What the parts of a stage take, for schedules that arrange for it.
struct PartTimes {
  schedule::StageTimes embedding{};
  schedule::StageTimes layer{};  ///< one decoder layer
  schedule::StageTimes head{};
  schedule::Seconds communication{0.0};

  friend bool operator==(const PartTimes&, const PartTimes&) = default;
};

/// Whether the run's schedule depends on times that have to be measured: the options name a mode that
/// arranges for them, and do not give them.
bool needs_times(const config::PretrainOptions& options);

/// The plan that `options` ask for. `measured` is used where needs_times says so.
/// Throws ConfigError where the schedule does not suit the pipeline, a CSV file is none or does not fit, a
/// limit cannot be kept, or the model has too few layers.
PipelinePlan make_plan(const config::PretrainOptions& options, const config::ModelConfig& model,
                       const PartTimes& measured);

/// The directions in which activations and gradients flow between the ranks of `schedule`, ascending.
std::vector<comm::Edge> edges_of(const schedule::Schedule& schedule);

/// What each stage keeps of a training microbatch, in bytes: cost's formulas.
schedule::Memory stage_memory(const config::ModelConfig& model, const std::vector<cost::StageLayers>& layers,
                              const cost::MicrobatchShape& shape);

}  // namespace braid::train
