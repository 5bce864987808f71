#include "braid/train/pipeline_plan.h"

#include <optional>
#include <set>

#include "braid/base/error.h"
#include "braid/config/pretrain.h"
#include "braid/config/schedule_times.h"
#include "braid/config/text_file.h"
#include "braid/cost/model_cost.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::train {
namespace {

using schedule::Seconds;
using schedule::StageTimes;

void add(StageTimes& sum, const StageTimes& part, double count) {
  sum.forward += part.forward * count;
  sum.backward_input += part.backward_input * count;
  sum.backward_weight += part.backward_weight * count;
}

schedule::Durations stage_durations(const PartTimes& parts, const std::vector<cost::StageLayers>& layers) {
  schedule::Durations durations = {.stages = {}, .communication = parts.communication};
  for (const cost::StageLayers& range : layers) {
    StageTimes& stage = durations.stages.emplace_back(StageTimes{Seconds(0), Seconds(0), Seconds(0)});
    add(stage, parts.layer, static_cast<double>(range.size()));
  }
  add(durations.stages.front(), parts.embedding, 1);
  add(durations.stages.back(), parts.head, 1);
  return durations;
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

model::StageRange PipelinePlan::range_of(int32_t stage) const {
  const cost::StageLayers& range = layers[static_cast<size_t>(stage)];
  return {.first_layer = range.first_layer,
          .end_layer = range.end_layer,
          .has_embedding = stage == 0,
          .has_head = stage == stages() - 1};
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

schedule::Memory stage_memory(const config::ModelConfig& model, const std::vector<cost::StageLayers>& layers,
                              const cost::MicrobatchShape& shape) {
  schedule::Memory memory = {.stages = {}};
  const auto add_part = [](schedule::StageMemory& sum, const cost::SavedBytes& part, int64_t count) {
    sum.forward_to_backward += count * part.forward_to_backward;
    sum.backward_to_weight += count * part.backward_to_weight;
  };
  for (const cost::StageLayers& range : layers) {
    schedule::StageMemory& stage = memory.stages.emplace_back(schedule::StageMemory{0, 0});
    add_part(stage, cost::attention_saved_bytes(model, shape), range.size());
    add_part(stage, cost::mlp_saved_bytes(model, shape), range.size());
  }
  add_part(memory.stages.front(), cost::embedding_saved_bytes(model, shape), 1);
  add_part(memory.stages.back(), cost::head_saved_bytes(model, shape), 1);
  return memory;
}

PipelinePlan make_plan(const config::PretrainOptions& options, const config::ModelConfig& model,
                       const PartTimes& measured) {
  PipelinePlan plan;
  const std::optional<std::string> file = config::schedule_file(options);
  schedule::PipelineShape shape = {.ranks = static_cast<int32_t>(config::pipeline_ranks(options)),
                                   .chunks_per_rank = static_cast<int32_t>(config::pipeline_chunks(options)),
                                   .microbatches = static_cast<int32_t>(options.gradient_accumulation_steps)};
  if (file) {
    plan.compute = read_csv(options, *file);
    shape = plan.compute.shape;
  }
  require<ConfigError>(shape.stages() <= model.num_hidden_layers, "the model has ", model.num_hidden_layers,
                       " decoder layers, fewer than the ", shape.stages(), " stages of ", shape.ranks,
                       " ranks with ", shape.chunks_per_rank, " chunks each: every stage needs one");
  plan.layers = cost::partition(cost::unit_costs(model, options.max_seq_length), shape.stages());
  plan.memory_bytes = stage_memory(model, plan.layers, microbatch_of(options));
  if (!file) {
    schedule::Workload workload = {.memory = plan.memory_bytes,
                                   .memory_limit = options.schedule_memory_limit};
    workload.durations = options.schedule_times ? config::parse_schedule_times(*options.schedule_times, shape,
                                                                               "--schedule_times")
                                                : stage_durations(measured, plan.layers);
    plan.compute = schedule::generate(options.pipeline_schedule_mode, shape, workload);
  } else if (options.schedule_memory_limit) {
    schedule::require_within(plan.compute, plan.memory_bytes, *options.schedule_memory_limit);
  }
  plan.step = schedule::lower(
      plan.compute, {.receives = options.enable_send_recv_overlap ? schedule::ReceivePosting::kEarly
                                                                  : schedule::ReceivePosting::kJustInTime});
  return plan;
}

}  // namespace braid::train
