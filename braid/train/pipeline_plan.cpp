#include "braid/train/pipeline_plan.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/pretrain.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/cost/partition.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::train {
namespace {

using schedule::Seconds;
using schedule::StageTimes;

schedule::Durations stage_durations(const PartTimes& parts, const PipelinePlan& plan) {
  schedule::Durations durations = {.stages = {}, .communication = parts.communication};
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stage_layers.size()); ++stage) {
    StageTimes& sum = durations.stages.emplace_back(StageTimes{Seconds(0), Seconds(0), Seconds(0)});
    for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
      const auto found = parts.kinds.find(layer.kind);
      if (found == parts.kinds.end()) continue;  // not measured, because the schedule does not ask for times
      sum.forward += found->second.forward;
      sum.backward_input += found->second.backward_input;
      sum.backward_weight += found->second.backward_weight;
    }
  }
  return durations;
}

/// What each stage keeps of a microbatch.
schedule::Memory stage_memory(const PipelinePlan& plan, const cost::MicrobatchShape& shape) {
  schedule::Memory memory = {.stages = {}};
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stage_layers.size()); ++stage) {
    schedule::StageMemory& sum = memory.stages.emplace_back(schedule::StageMemory{0, 0});
    for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
      if (!layer.saved_bytes) continue;
      const cost::SavedBytes kept = layer.saved_bytes(shape);
      sum.forward_to_backward += kept.forward_to_backward;
      sum.backward_to_weight += kept.backward_to_weight;
    }
  }
  return memory;
}

/// A parameter of the plan's model, and the stage that holds it.
struct PlacedParameter {
  int32_t stage = 0;
  tensor::Parameter parameter;
};

std::vector<PlacedParameter> parameters_of(const PipelinePlan& plan) {
  std::vector<PlacedParameter> all;
  for (int32_t stage = 0; stage < plan.stages(); ++stage) {
    for (const layers::LayerSpec& spec : plan.layers_of(stage)) {
      const std::unique_ptr<layers::Layer> layer = layers::make_without_data(spec);
      for (const tensor::Parameter* parameter : layers::parameters_of(*layer))
        all.push_back({stage, *parameter});
    }
  }
  return all;
}

/// The weight that two layers share. Throws ConfigError where they share less than a whole parameter, where
/// more than two do, or for a second such weight: copies of a weight would be trained apart without a word.
std::optional<PlannedTie> find_tie(const PipelinePlan& plan, const std::vector<PlacedParameter>& parameters) {
  std::optional<PlannedTie> tie;
  std::map<std::string, const PlacedParameter*> first_user;  // of each tensor
  for (const PlacedParameter& placed : parameters) {
    const PlacedParameter* first = nullptr;
    for (const tensor::TensorSlice& slice : placed.parameter.slices) {
      const auto [found, is_new] = first_user.try_emplace(slice.name, &placed);
      if (!is_new) first = found->second;
    }
    if (first == nullptr) continue;
    require<ConfigError>(
        !tie && tensor::is_tied(first->parameter, placed.parameter), "the weight ", placed.parameter.name,
        " is used by several layers: a model may have one weight, which two layers share whole");
    tie = PlannedTie{.slices = placed.parameter.slices,
                     .stages = {.first = first->stage,
                                .last = placed.stage,
                                .last_made_in_forward = placed.parameter.gradient_in_forward},
                     .first_rank = schedule::place_of(plan.compute, first->stage).rank,
                     .last_rank = schedule::place_of(plan.compute, placed.stage).rank};
  }
  return tie;
}

/// How many parameters of each stage count in the gradient norm.
std::vector<int64_t> count_norms(const PipelinePlan& plan, const std::vector<PlacedParameter>& parameters) {
  std::vector<int64_t> counts(static_cast<size_t>(plan.stages()), 0);
  for (const PlacedParameter& placed : parameters) ++counts[static_cast<size_t>(placed.stage)];
  if (plan.tied) --counts[static_cast<size_t>(plan.tied->stages.last)];
  return counts;
}

cost::MicrobatchShape microbatch_of(const config::PretrainOptions& options) {
  return {.sequences = options.per_device_train_batch_size,
          .sequence_tokens = options.max_seq_length,
          .element_bytes = options.bf16 ? 2 : 4,
          .wide_element_bytes = 4};
}

std::string text_of(const std::string& path) {
  try {
    return config::read_text_file(path);
  } catch (const ConfigError& error) {
    throw ConfigError(cat("--pipeline_schedule_mode csv:", path, ": ", error.what()));
  }
}

schedule::Schedule read_csv(const config::PretrainOptions& options, const std::string& path) {
  schedule::Schedule schedule = schedule::from_csv(text_of(path), path);
  const schedule::PipelineShape& shape = schedule.shape;
  require<ConfigError>(shape.ranks == config::pipeline_ranks(options) &&
                           shape.microbatches == options.gradient_accumulation_steps,
                       path, " is a schedule of ", shape.ranks, " ranks and ", shape.microbatches,
                       " microbatches, but --pipeline_parallel_degree is ", config::pipeline_ranks(options),
                       " and --gradient_accumulation_steps ", options.gradient_accumulation_steps);
  return schedule;
}

}  // namespace

std::vector<int32_t> PipelinePlan::stages_of(int32_t rank) const {
  std::vector<int32_t> result;
  for (int32_t chunk = 0; chunk < compute.shape.chunks_per_rank; ++chunk) {
    result.push_back(schedule::stage_of(compute, {.rank = rank, .chunk = chunk}));
  }
  return result;
}

std::span<const layers::LayerSpec> PipelinePlan::layers_of(int32_t stage) const {
  const tensor::Range& range = stage_layers.at(static_cast<size_t>(stage));
  return std::span(layers).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

std::vector<std::span<const layers::LayerSpec>> PipelinePlan::layers_of_rank(int32_t rank) const {
  std::vector<std::span<const layers::LayerSpec>> result;
  for (const int32_t stage : stages_of(rank)) result.push_back(layers_of(stage));
  return result;
}

int64_t PlannedTie::numel() const {
  int64_t sum = 0;
  for (const tensor::TensorSlice& slice : slices) sum += slice.numel();
  return sum;
}

bool needs_times(const config::PretrainOptions& options) {
  return options.do_train && !options.schedule_times && !config::schedule_file(options) &&
         schedule::mode_of(options.pipeline_schedule_mode).arranges_for_times;
}

std::vector<comm::Edge> edges_of(const schedule::Schedule& schedule) {
  std::set<comm::Edge> edges;
  for (int32_t stage = 0; stage + 1 < schedule.shape.stages(); ++stage) {
    const int32_t here = schedule::place_of(schedule, stage).rank;
    const int32_t next = schedule::place_of(schedule, stage + 1).rank;
    if (here == next) continue;
    edges.insert({.from = here, .to = next});
    edges.insert({.from = next, .to = here});
  }
  return {edges.begin(), edges.end()};
}

comm::MessageTraffic step_messages(const PipelinePlan& plan, int32_t rank,
                                   const cost::MicrobatchShape& microbatch, int64_t hidden) {
  comm::MessageTraffic traffic;
  const auto add = [&](int32_t from, int32_t to, comm::MessageKind kind, int64_t count, int64_t bytes) {
    for (const auto& [here, direction, peer] :
         {std::tuple(from, comm::Direction::kSend, to), std::tuple(to, comm::Direction::kReceive, from)}) {
      if (here != rank || from == to) continue;
      comm::Tally& tally = traffic.tallies[{.direction = direction, .peer = peer, .kind = kind}];
      tally.count += count;
      tally.bytes += count * bytes;
    }
  };
  const int64_t bytes = microbatch.tokens() * hidden * microbatch.element_bytes;
  for (int32_t stage = 0; stage + 1 < plan.stages(); ++stage) {
    const int32_t here = schedule::place_of(plan.compute, stage).rank;
    const int32_t next = schedule::place_of(plan.compute, stage + 1).rank;
    add(here, next, comm::MessageKind::kActivation, plan.compute.shape.microbatches, bytes);
    add(next, here, comm::MessageKind::kGradient, plan.compute.shape.microbatches, bytes);
  }
  if (plan.tied) {
    const int64_t gradient = plan.tied->numel() * microbatch.wide_element_bytes;
    add(plan.tied->first_rank, plan.tied->last_rank, comm::MessageKind::kTiedGradient, 1, gradient);
    add(plan.tied->last_rank, plan.tied->first_rank, comm::MessageKind::kTiedGradient, 1, gradient);
  }
  return traffic;
}

int64_t step_exchange_numel(const PipelinePlan& plan) {
  int64_t most = 0;
  for (int32_t rank = 0; rank < plan.ranks(); ++rank) {
    int64_t sum = 0;
    for (const int32_t stage : plan.stages_of(rank)) sum += plan.stage_norms[static_cast<size_t>(stage)];
    most = std::max(most, sum);
  }
  return kExchangedNumbers + most;
}

std::vector<tensor::Range> cut_into_stages(std::span<const layers::LayerSpec> layers,
                                           const cost::MicrobatchShape& shape, int64_t stages) {
  // Blocks of layers that stay together, the loss apart: cost::partition puts it with the last.
  std::vector<double> costs = {0};
  std::vector<int64_t> begins;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::unique_ptr<layers::Layer> layer = layers::make_without_data(layers[i]);
    int64_t parameters = 0;
    for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) parameters += parameter->numel();
    const double cost = cost::training_cost(layers::work_of(layers[i], shape), parameters);
    const bool is_loss = i + 1 == layers.size();
    require<ConfigError>((layer->as_loss_layer() != nullptr) == is_loss, "layer ", layers[i].name,
                         is_loss ? " ends the model and must be a loss" : " is a loss, but layers follow it");
    if (is_loss || i == 0 || layers[i].may_begin_stage) {
      costs.push_back(cost);
      if (!is_loss) begins.push_back(static_cast<int64_t>(i));
    } else {
      costs.back() += cost;
    }
  }
  begins.push_back(static_cast<int64_t>(layers.size()));
  std::vector<tensor::Range> result;
  for (const cost::StageLayers& blocks : cost::partition(costs, stages)) {
    result.push_back(
        {begins[static_cast<size_t>(blocks.first_layer)], begins[static_cast<size_t>(blocks.end_layer)]});
  }
  return result;
}

PipelinePlan make_plan(const config::PretrainOptions& options, std::vector<layers::LayerSpec> layers,
                       const PartTimes& measured) {
  PipelinePlan plan;
  plan.layers = std::move(layers);
  const std::optional<std::string> file = config::schedule_file(options);
  schedule::PipelineShape shape = {.ranks = static_cast<int32_t>(config::pipeline_ranks(options)),
                                   .chunks_per_rank = static_cast<int32_t>(config::pipeline_chunks(options)),
                                   .microbatches = static_cast<int32_t>(options.gradient_accumulation_steps)};
  if (file) {
    plan.compute = read_csv(options, *file);
    shape = plan.compute.shape;
  }
  require<ConfigError>(plan.layers.size() >= 2, "a model needs a layer and a loss, got ",
                       counted(static_cast<int64_t>(plan.layers.size()), "layer"));
  const auto inner = std::span(plan.layers).subspan(1, plan.layers.size() - 2);
  const auto blocks =
      std::ranges::count_if(inner, [](const auto& layer) { return layer.may_begin_stage; }) + 1;
  require<ConfigError>(shape.stages() <= blocks, "the model can be cut into at most ", blocks,
                       " stages (one a decoder layer), fewer than the ", shape.stages(), " stages of ",
                       shape.ranks, " ranks with ", shape.chunks_per_rank, " chunks each");
  const cost::MicrobatchShape microbatch = microbatch_of(options);
  plan.stage_layers = cut_into_stages(plan.layers, microbatch, shape.stages());
  plan.memory_bytes = stage_memory(plan, microbatch);
  if (!file) {
    schedule::Workload workload = {.memory = plan.memory_bytes,
                                   .memory_limit = options.schedule_memory_limit};
    workload.durations = options.schedule_times ? config::parse_schedule_times(*options.schedule_times, shape,
                                                                               "--schedule_times")
                                                : stage_durations(measured, plan);
    plan.compute = schedule::generate(options.pipeline_schedule_mode, shape, workload);
  } else if (options.schedule_memory_limit) {
    schedule::require_within(plan.compute, plan.memory_bytes, *options.schedule_memory_limit);
  }
  const std::vector<PlacedParameter> parameters = parameters_of(plan);
  plan.tied = find_tie(plan, parameters);
  plan.stage_norms = count_norms(plan, parameters);
  schedule::StepEnd step_end = {.norm_use = options.max_grad_norm > 0 ? schedule::NormUse::kScalesUpdate
                                                                      : schedule::NormUse::kReportedOnly};
  if (plan.tied) step_end.tied.push_back(plan.tied->stages);
  plan.step = schedule::lower(
      plan.compute, {.receives = options.enable_send_recv_overlap ? schedule::ReceivePosting::kEarly
                                                                  : schedule::ReceivePosting::kJustInTime,
                     .step_end = step_end});
  return plan;
}

}  // namespace braid::train
