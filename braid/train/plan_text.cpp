#include "braid/train/plan_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "braid/base/text.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/step_interval.h"
#include "braid/train/recomputation.h"

namespace braid::train {
namespace {

/// What the plan predicts of a step's time, in the unit of its durations.
struct StepPrediction {
  schedule::Seconds step_time;
  schedule::Seconds interval;
  double bubble_rate = 0;
};

StepPrediction predict(const RunPlan& plan) {
  const schedule::Simulation simulation = schedule::simulate(plan.step, plan.durations);
  return {.step_time = simulation.step_time,
          .interval = schedule::step_interval(plan.step, plan.durations),
          .bubble_rate = simulation.bubble_rate};
}

int64_t parameters_of_model(const RunPlan& plan) {
  int64_t sum = 0;
  for (const layers::LayerSpec& spec : plan.model.layers) {
    const std::unique_ptr<layers::Layer> layer = layers::make_without_data(spec);
    for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) {
      for (const tensor::TensorSlice& slice : parameter->slices) sum += slice.numel();
    }
  }
  if (plan.tied) sum -= plan.tied->whole_numel();
  return sum;
}

/// "1 embedding, 8 attention, 8 mlp, 1 head".
std::string kinds_text(const RunPlan& plan) {
  std::vector<std::pair<std::string, int64_t>> kinds;
  for (const layers::LayerSpec& layer : plan.model.layers) {
    const auto found = std::ranges::find(kinds, layer.kind, &std::pair<std::string, int64_t>::first);
    if (found == kinds.end()) {
      kinds.emplace_back(layer.kind, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [kind, count] : kinds) text += cat(text.empty() ? "" : ", ", count, " ", kind);
  return text;
}

std::string step_text(const RunPlan& plan) {
  const StepPrediction step = predict(plan);
  const auto with_unit = [&](schedule::Seconds time) -> std::string {
    switch (plan.time_source) {
      case TimeSource::kGiven:
        return brief(time.count(), 6);
      case TimeSource::kMeasured:
        return fixed(time.count(), 4) + " s";
      case TimeSource::kFlops:
        return fixed(time.count(), 2) + " forwards";
    }
    return {};
  };
  const auto source = [&] {
    switch (plan.time_source) {
      case TimeSource::kGiven:
        return "with the given times";
      case TimeSource::kMeasured:
        return "with measured times";
      case TimeSource::kFlops:
        return "with times in proportion to FLOPs (1 forward: of a microbatch through an average rank)";
    }
    return "";
  };
  return cat("simulated step: ", with_unit(step.step_time), ", from step to step ", with_unit(step.interval),
             ", bubble ", fixed(100 * step.bubble_rate, 1), "%; ", source());
}

/// "stages 0, 3".
std::string stages_text(const std::vector<int32_t>& stages) {
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  for (size_t i = 0; i < stages.size(); ++i) text += cat(i == 0 ? "" : ", ", stages[i]);
  return text;
}

/// "full: decoder layers 0 to 3, 6; core_attn: decoder layer 4".
std::string recomputation_text(std::span<const config::Recomputation> of_blocks) {
  std::string text;
  for (const config::Recomputation kind :
       {config::Recomputation::kFull, config::Recomputation::kFullAttention,
        config::Recomputation::kCoreAttention}) {
    std::string layers;
    for (size_t i = 0; i < of_blocks.size(); ++i) {
      if (of_blocks[i] != kind) continue;
      const size_t begin = i;
      while (i + 1 < of_blocks.size() && of_blocks[i + 1] == kind) ++i;
      layers += cat(layers.empty() ? "" : ", ", begin);
      if (i > begin) layers += cat(i == begin + 1 ? ", " : " to ", i);
    }
    if (layers.empty()) continue;
    const auto count = std::ranges::count(of_blocks, kind);
    text +=
        cat(text.empty() ? "" : "; ", name_of(kind), ": decoder ", count == 1 ? "layer " : "layers ", layers);
  }
  return text.empty() ? "none" : text;
}

std::string size_text(int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }

struct Column {
  const char* name;
  int64_t PlannedMemory::*bytes;
};

/// What a memory table shows, but for the sum.
std::vector<Column> columns_of(const RunPlan& plan) {
  std::vector<Column> columns = {{"weights", &PlannedMemory::weights},
                                 {"gradients", &PlannedMemory::gradients},
                                 {"optimizer states", &PlannedMemory::optimizer_states},
                                 {"kept activations", &PlannedMemory::kept_activations},
                                 {"buffers", &PlannedMemory::buffers}};
  if (plan.step.data.is_on()) columns.push_back({"segments", &PlannedMemory::segments});
  return columns;
}

std::string_view precision_name(config::Precision precision) {
  switch (precision) {
    case config::Precision::kFloat32:
      return "float32";
    case config::Precision::kBfloat16:
      return "bfloat16";
    case config::Precision::kFloat16:
      return "float16";
  }
  return "";
}

/// A place in RunPlan::ranks, and what it is called.
struct ShownRank {
  size_t index = 0;
  std::string name;
};

/// What ranks of a pipeline alone are called is "rank 1"; with other axes "pp 1" stands for all data ranks,
/// and for all mp ranks that differ in nothing from the first.
std::string name_of_rank(const RunPlan& plan, int32_t pp, int32_t mp) {
  if (plan.strategy.mesh.world_size() == plan.strategy.mesh.pp) return cat("rank ", pp);
  return mp == 0 ? cat("pp ", pp) : cat("pp ", pp, " mp ", mp);
}

std::vector<ShownRank> shown_ranks(const RunPlan& plan) {
  std::vector<ShownRank> shown;
  const int32_t degree = plan.strategy.mesh.mp;
  for (int32_t pp = 0; pp < plan.strategy.mesh.pp; ++pp) {
    const RankPlan& first = plan.rank_at({.pp = pp});
    for (int32_t mp = 0; mp < degree; ++mp) {
      const RankPlan& mine = plan.rank_at({.mp = mp, .pp = pp});
      const bool is_new = mp == 0 || mine.parameters != first.parameters || mine.memory != first.memory;
      if (is_new) shown.push_back({static_cast<size_t>(pp * degree + mp), name_of_rank(plan, pp, mp)});
    }
  }
  return shown;
}

void add_memory_table(const RunPlan& plan, std::vector<std::string>& lines) {
  static constexpr size_t kLeast = 12;
  const std::vector<Column> columns = columns_of(plan);
  const auto right = [](const std::string& text, size_t width) {
    return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
  };
  const auto width = [](std::string_view name) { return std::max(kLeast, name.size() + 2); };
  std::string header = right("memory", 9);
  for (const Column& column : columns) header += right(column.name, width(column.name));
  lines.push_back(header + right("sum", kLeast));
  for (const auto& [index, name] : shown_ranks(plan)) {
    const PlannedMemory& memory = plan.ranks[index].memory;
    std::string line = right(name, 9);
    for (const Column& column : columns) line += right(size_text(memory.*column.bytes), width(column.name));
    lines.push_back(line + right(size_text(memory.sum()), kLeast));
  }
  for (const auto& [index, name] : shown_ranks(plan)) {
    const int64_t bytes = plan.ranks[index].memory.offloaded_states;
    if (bytes > 0)
      lines.push_back(cat("not in it: ", name, "'s offloaded optimizer states, ", size_text(bytes)));
  }
  for (const std::string& kind : plan.kinds_of_unknown_memory) {
    lines.push_back(cat("not in it: what layers of kind ", kind,
                        " keep for their backward passes, which their spec does not say"));
  }
}

std::string kind_text(comm::MessageKind kind, int64_t count) {
  switch (kind) {
    case comm::MessageKind::kActivation:
      return counted(count, "activation");
    case comm::MessageKind::kGradient:
      return counted(count, "gradient");
    case comm::MessageKind::kTiedGradient:
      return counted(count, "gradient of the tied weight", "gradients of the tied weight");
  }
  return {};
}

std::string_view kind_key(comm::MessageKind kind) {
  switch (kind) {
    case comm::MessageKind::kActivation:
      return "activation";
    case comm::MessageKind::kGradient:
      return "gradient";
    case comm::MessageKind::kTiedGradient:
      return "tied_gradient";
  }
  return {};
}

void add_messages(const RunPlan& plan, std::vector<std::string>& lines) {
  for (const auto& [index, name] : shown_ranks(plan)) {
    for (const auto& [route, tally] : plan.ranks[index].messages.tallies) {
      if (route.direction != comm::Direction::kSend) continue;  // each is received where it is sent to
      lines.push_back(cat("messages a step: ", name, " to ", name_of_rank(plan, route.peer, 0), ": ",
                          kind_text(route.kind, tally.count), " of ", size_text(tally.bytes / tally.count)));
    }
  }
  for (const auto& [index, name] : shown_ranks(plan)) {
    for (const auto& [axis, traffic] : plan.ranks[index].collectives) {
      for (const auto& [collective, tally] : traffic.tallies) {
        lines.push_back(cat("messages a step: ", name, " over ", mesh::to_string(axis), ": ", tally.count,
                            " x ", comm::name_of(collective), ", ", size_text(tally.bytes), " sent"));
      }
    }
  }
  const int64_t numbers = kStepExchangeNumel;
  lines.push_back(plan.strategy.mesh.world_size() == 1
                      ? std::string("messages a step: none, there is one rank")
                      : cat("messages a step: among all ranks: 1 all-gather of ", counted(numbers, "number"),
                            " (", size_text(8 * numbers), ") from each"));
}

}  // namespace

std::vector<std::string> plan_text(const RunPlan& plan) {
  const config::TrainingOptions& training = plan.training;
  std::vector<std::string> lines;
  lines.push_back(
      cat("model: ", counted(parameters_of_model(plan), "parameter"), " in ",
          counted(std::ssize(plan.model.layers), "layer"), " (", kinds_text(plan), "), ",
          precision_name(training.precision),
          training.precision == config::Precision::kFloat32 ? "" : " with float32 master weights"));
  lines.push_back(cat("ranks: ", mesh::to_string(plan.strategy.mesh)));
  const bool trains = training.max_steps > 0;
  if (trains) {
    lines.push_back(cat("schedule: ", plan.compute.name, ", ",
                        counted(training.microbatches, "microbatch", "microbatches"), " of ",
                        training.microbatch_sequences, " x ", training.sequence_tokens, " tokens a step, ",
                        counted(plan.samples_per_step(), "sample"), " a step"));
    lines.push_back(step_text(plan));
    if (!plan.recompute.empty()) {
      lines.push_back("recomputed in the backward pass: " + recomputation_text(plan.recompute));
    }
    if (plan.strategy.early_weight_gradients && !uses(plan.compute, schedule::Op::kBackwardInput)) {
      lines.push_back(cat("early_weight_gradients has no effect: ", plan.compute.name,
                          " does not split the backward pass"));
    }
  }
  for (const auto& [index, name] : shown_ranks(plan)) {
    const RankPlan& mine = plan.ranks[index];
    std::string layers;
    for (const int32_t stage : mine.stages) {
      const std::span<const layers::LayerSpec> held = plan.layers_of(stage);
      layers += cat(layers.empty() ? "" : ", ", held.front().name, " to ", held.back().name);
    }
    lines.push_back(cat(name, ": ", stages_text(mine.stages), " of ", plan.stages(), " (", layers, "), ",
                        counted(mine.parameters, "parameter")));
  }
  if (!trains) return lines;
  add_memory_table(plan, lines);
  add_messages(plan, lines);
  return lines;
}

std::string plan_json(const RunPlan& plan) {
  using Json = nlohmann::ordered_json;
  const StepPrediction step = predict(plan);
  constexpr std::array kSources = {"given", "measured_seconds", "flops"};
  Json ranks = Json::array();
  for (const RankPlan& rank : plan.ranks) {
    Json stages = Json::array();
    for (const int32_t stage : rank.stages) {
      Json layers = Json::array();
      for (const layers::LayerSpec& layer : plan.layers_of(stage)) layers.push_back(layer.name);
      stages.push_back({{"stage", stage}, {"layers", std::move(layers)}});
    }
    Json messages = Json::array();
    for (const auto& [route, tally] : rank.messages.tallies) {
      messages.push_back({{"direction", route.direction == comm::Direction::kSend ? "send" : "receive"},
                          {"peer", route.peer},
                          {"kind", kind_key(route.kind)},
                          {"count", tally.count},
                          {"bytes", tally.bytes}});
    }
    Json collectives = Json::array();
    for (const auto& [axis, traffic] : rank.collectives) {
      for (const auto& [collective, tally] : traffic.tallies) {
        collectives.push_back({{"axis", mesh::to_string(axis)},
                               {"collective", comm::name_of(collective)},
                               {"count", tally.count},
                               {"bytes", tally.bytes}});
      }
    }
    const PlannedMemory& memory = rank.memory;
    ranks.push_back({{"stages", std::move(stages)},
                     {"parameters", rank.parameters},
                     {"memory_bytes",
                      {{"weights", memory.weights},
                       {"gradients", memory.gradients},
                       {"optimizer_states", memory.optimizer_states},
                       {"kept_activations", memory.kept_activations},
                       {"buffers", memory.buffers},
                       {"segments", memory.segments},
                       {"sum", memory.sum()},
                       {"offloaded_states", memory.offloaded_states}}},
                     {"messages", std::move(messages)},
                     {"collectives", std::move(collectives)}});
  }
  const mesh::MeshShape& mesh = plan.strategy.mesh;
  Json recompute = Json::array();
  for (const config::Recomputation of_block : plan.recompute) recompute.push_back(name_of(of_block));
  const Json json = {
      {"parameters", parameters_of_model(plan)},
      {"precision", precision_name(plan.training.precision)},
      {"mesh", {{"mp", mesh.mp}, {"sharding", mesh.sharding}, {"pp", mesh.pp}, {"dp", mesh.dp}}},
      {"schedule", plan.compute.name},
      {"microbatches", plan.training.microbatches},
      {"chunks_per_rank", plan.strategy.chunks_per_rank},
      {"step",
       {{"times", kSources[static_cast<size_t>(plan.time_source)]},
        {"step_time", step.step_time.count()},
        {"interval", step.interval.count()},
        {"bubble_rate", step.bubble_rate}}},
      {"sharding_stage", plan.strategy.sharding_stage},
      {"all_gather_bytes", mesh.world_size() > 1 ? 8 * kStepExchangeNumel : 0},
      {"recompute", std::move(recompute)},  // of each decoder layer
      {"early_weight_gradients", plan.strategy.early_weight_gradients},
      {"kinds_of_unknown_memory", plan.kinds_of_unknown_memory},
      {"ranks", std::move(ranks)}};
  return json.dump();
}

}  // namespace braid::train
