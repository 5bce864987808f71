#include "braid/train/stage_times.h"

#include <numeric>

#include "braid/base/error.h"
#include "braid/schedule/workload.h"

namespace braid::train {
namespace {

using schedule::Seconds;
using schedule::StageTimes;

schedule::Durations measured_durations(const PartTimes& parts, const RunPlan& plan) {
  schedule::Durations durations = {.stages = {}, .communication = parts.communication};
  for (int32_t stage = 0; stage < std::ssize(plan.stage_layers); ++stage) {
    StageTimes& sum = durations.stages.emplace_back(StageTimes{Seconds(0), Seconds(0), Seconds(0)});
    for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
      const auto found = parts.kinds.find(layer.kind);
      require<ConfigError>(found != parts.kinds.end(), "layers of kind ", layer.kind, " were not measured");
      const StageTimes& times = found->second;
      sum.forward += times.forward;
      sum.backward_input += times.backward_input;
      sum.backward_weight += times.backward_weight;
    }
  }
  return durations;
}

/// F, B and W of a stage as its share of the model's matrix products, of which each does as many, but that B
/// also does what is recomputed, and in W's place the early gradients.
schedule::Durations proportional_durations(const RunPlan& plan, const cost::MicrobatchShape& shape) {
  std::vector<double> flops, recomputed, early;
  for (int32_t stage = 0; stage < std::ssize(plan.stage_layers); ++stage) {
    flops.push_back(0.0);
    recomputed.push_back(0.0);
    early.push_back(0.0);
    for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
      const cost::LayerWork work = layers::work_of(layer, shape);
      flops.back() += work.forward_flops;
      recomputed.back() += work.recomputed_flops;
      early.back() += work.early_gradient_flops;
    }
  }
  const double average = std::accumulate(flops.begin(), flops.end(), 0.0) / plan.strategy.mesh.pp;
  schedule::Durations durations = {.stages = {}};
  for (size_t stage = 0; stage < flops.size(); ++stage) {
    const auto share = [&](double of_stage, double otherwise) {
      return Seconds(average > 0 ? of_stage / average : otherwise);
    };
    durations.stages.push_back({.forward = share(flops[stage], 1.0),
                                .backward_input = share(flops[stage] + recomputed[stage] + early[stage], 1.0),
                                .backward_weight = share(flops[stage] - early[stage], 1.0)});
  }
  return durations;
}

}  // namespace

schedule::Durations durations_of(const RunPlan& plan, const PartTimes& measured, TimeSource& source) {
  if (plan.strategy.durations) {
    source = TimeSource::kGiven;
    return *plan.strategy.durations;
  }
  source = measured.kinds.empty() ? TimeSource::kFlops : TimeSource::kMeasured;
  schedule::Durations durations = measured.kinds.empty() ? proportional_durations(plan, plan.microbatch())
                                                         : measured_durations(measured, plan);
  if (plan.strategy.mesh.mp > 1) schedule::assume_exchanges(durations);
  return durations;
}

}  // namespace braid::train
