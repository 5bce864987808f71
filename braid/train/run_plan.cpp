#include "braid/train/run_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cost/partition.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"
#include "braid/schedule/passes/weights_in_hand.h"
#include "braid/train/rank_model.h"
#include "braid/train/rank_plan.h"
#include "braid/train/recomputation.h"
#include "braid/train/recompute_choice.h"
#include "braid/train/stage_times.h"

namespace braid::train {
namespace {

/// Gives F and I of the plan's schedule W's in hand, if that pays and stays within the memory limit.
void place_weights_in_hand(RunPlan& plan) {
  schedule::Schedule placed = schedule::place_weights_in_hand(plan.compute, plan.durations);
  if (const std::optional<int64_t> limit = plan.strategy.memory_limit_bytes) {
    if (std::ranges::max(schedule::peak_memory(placed, plan.memory_bytes)) > *limit) return;
  }
  plan.compute = std::move(placed);
}

void add_stage_memory(RunPlan& plan, const cost::MicrobatchShape& shape) {
  plan.memory_bytes = {.stages = {}};
  std::set<std::string> unknown;
  for (int32_t stage = 0; stage < std::ssize(plan.stage_layers); ++stage) {
    schedule::StageMemory& sum = plan.memory_bytes.stages.emplace_back(schedule::StageMemory{0, 0});
    std::vector<schedule::StageMemory>& layers = plan.memory_bytes.layers.emplace_back();
    for (const layers::LayerSpec& layer : plan.layers_of(stage)) {
      schedule::StageMemory& of_layer = layers.emplace_back(schedule::StageMemory{0, 0});
      if (!layer.saved_bytes) {
        unknown.insert(layer.kind);
        continue;
      }
      const cost::SavedBytes kept = layer.saved_bytes(shape);
      of_layer = {.forward_to_backward = kept.forward_to_backward,
                  .backward_to_weight = kept.backward_to_weight};
      sum.forward_to_backward += kept.forward_to_backward;
      sum.backward_to_weight += kept.backward_to_weight;
    }
  }
  plan.kinds_of_unknown_memory.assign(unknown.begin(), unknown.end());
}

/// A parameter of the plan's model, and the stage that holds it.
struct PlacedParameter {
  int32_t stage = 0;
  tensor::Parameter parameter;
};

std::vector<PlacedParameter> parameters_of(const RunPlan& plan) {
  std::vector<PlacedParameter> all;
  for (int32_t stage = 0; stage < plan.stages(); ++stage) {
    for (const layers::LayerSpec& spec : plan.layers_of(stage)) {
      const std::unique_ptr<layers::Layer> layer =
          layers::make_without_data(spec, layers::placement_of(plan.microbatch()));
      for (const tensor::Parameter* parameter : layers::parameters_of(*layer))
        all.push_back({stage, *parameter});
    }
  }
  return all;
}

/// The weight that two layers share. Throws ConfigError where they share less than a whole parameter, where
/// more than two do, or for a second such weight: copies of a weight would be trained apart without a word.
std::optional<PlannedTie> find_tie(const RunPlan& plan, const std::vector<PlacedParameter>& parameters) {
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

std::string shape_text(const schedule::PipelineShape& shape) {
  return cat(counted(shape.ranks, "rank"), ", ", counted(shape.chunks_per_rank, "chunk"), " each and ",
             counted(shape.microbatches, "microbatch", "microbatches"));
}

schedule::PipelineShape shape_of(const config::Strategy& strategy, const config::TrainingOptions& training) {
  require<ConfigError>(!strategy.sequence_parallel || training.sequence_tokens % strategy.mesh.mp == 0,
                       "sequence parallelism cuts sequences into equal parts: ", training.sequence_tokens,
                       " tokens are not divisible by an mp degree of ", strategy.mesh.mp);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  require<ConfigError>(training.microbatches <= kMost, "a step has at most ", kMost, " microbatches, got ",
                       training.microbatches);
  const schedule::PipelineShape shape = {.ranks = strategy.mesh.pp,
                                         .chunks_per_rank = strategy.chunks_per_rank,
                                         .microbatches = static_cast<int32_t>(training.microbatches)};
  if (strategy.schedule) {
    require<ConfigError>(strategy.schedule->shape == shape, "the given schedule ", strategy.schedule->name,
                         " is for ", shape_text(strategy.schedule->shape), ", but the run has ",
                         shape_text(shape));
  }
  schedule::validate(shape);
  return shape;
}

/// Which of the layers each stage holds.
std::vector<tensor::Range> cut_model(const layers::ModelSpec& model, const schedule::PipelineShape& shape,
                                     const cost::MicrobatchShape& microbatch) {
  const std::span<const layers::LayerSpec> layers = model.layers;
  require<ConfigError>(model.hidden >= 1, "ModelSpec::hidden must be the width of what stages hand on, got ",
                       model.hidden);
  require<ConfigError>(layers.size() >= 2, "a model needs a layer and a loss, got ",
                       counted(std::ssize(layers), "layer"));
  const auto inner = layers.subspan(1, layers.size() - 2);
  const auto blocks =
      std::ranges::count_if(inner, [](const auto& layer) { return layer.may_begin_stage; }) + 1;
  require<ConfigError>(shape.stages() <= blocks, "the model can be cut into at most ",
                       counted(blocks, "stage"), ", fewer than the ", shape.stages(), " of ",
                       counted(shape.ranks, "rank"), " with ", counted(shape.chunks_per_rank, "chunk"),
                       " each");
  return cut_into_stages(layers, microbatch, shape.stages());
}

/// What each segment keeps of a microbatch.
std::vector<std::vector<schedule::StageMemory>> segment_memory(
    const RunPlan& plan, const cost::MicrobatchShape& microbatch,
    const std::vector<std::vector<tensor::Range>>& groups) {
  std::vector<std::vector<schedule::StageMemory>> result;
  for (int32_t stage = 0; stage < plan.stages(); ++stage) {
    std::vector<schedule::StageMemory>& segments = result.emplace_back();
    const std::span<const layers::LayerSpec> layers = plan.layers_of(stage);
    for (const tensor::Range& group : groups[static_cast<size_t>(stage)]) {
      schedule::StageMemory& sum = segments.emplace_back(schedule::StageMemory{0, 0});
      for (int64_t i = group.begin; i < group.end; ++i) {
        const layers::LayerSpec& layer = layers[static_cast<size_t>(i)];
        if (!layer.saved_bytes) continue;
        const cost::SavedBytes kept = layer.saved_bytes(microbatch);
        sum.forward_to_backward += kept.forward_to_backward;
        sum.backward_to_weight += kept.backward_to_weight;
      }
    }
  }
  return result;
}

/// The layers of each stage's segments.
std::vector<std::vector<tensor::Range>> stage_groups(const RunPlan& plan,
                                                     const cost::MicrobatchShape& microbatch) {
  std::vector<std::vector<tensor::Range>> groups(static_cast<size_t>(plan.stages()));
  for (int32_t rank = 0; rank < plan.compute.shape.ranks; ++rank) {
    const RankLayout layout = lay_out_rank(plan.layers_of_rank(rank), plan.layout(), microbatch.element_bytes,
                                           layers::placement_of(microbatch));
    for (int32_t chunk = 0; chunk < plan.compute.shape.chunks_per_rank; ++chunk) {
      const int32_t stage = schedule::stage_of(plan.compute, {.rank = rank, .chunk = chunk});
      groups[static_cast<size_t>(stage)] = layout.stages[static_cast<size_t>(chunk)].groups();
    }
  }
  return groups;
}

schedule::DataAxes data_axes(const config::Strategy& strategy,
                             const std::vector<std::vector<tensor::Range>>& groups) {
  schedule::DataAxes data = {
      .has_sharding = strategy.mesh.sharding > 1,
      .has_dp = strategy.mesh.dp > 1,
      .sharding_stage = strategy.sharding_stage,
      .reduces_each_microbatch = strategy.reduce_timing() == config::ReduceTiming::kMicrobatch};
  if (!data.is_on()) return {};
  for (const std::vector<tensor::Range>& stage : groups)
    data.segments.push_back(static_cast<int32_t>(stage.size()));
  return data;
}

/// Memory, durations and the schedule of a plan that has its model and its cut.
void arrange(RunPlan& plan, const schedule::PipelineShape& shape, const PartTimes& measured) {
  const config::Strategy& strategy = plan.strategy;
  add_stage_memory(plan, plan.microbatch());
  plan.durations = durations_of(plan, measured, plan.time_source);
  schedule::validate(plan.durations, shape);
  if (!strategy.schedule) {
    plan.compute = schedule::generate(strategy.schedule_mode, shape,
                                      {.durations = plan.durations,
                                       .memory = plan.memory_bytes,
                                       .memory_limit = strategy.memory_limit_bytes});
    return;
  }
  plan.compute = *strategy.schedule;
  if (strategy.memory_limit_bytes) {
    schedule::require_within(plan.compute, plan.memory_bytes, *strategy.memory_limit_bytes);
  }
}

/// `plan` with `of_blocks` recomputed and otherwise cut like `base`, which recomputes nothing.
RunPlan with_recomputation(const RunPlan& plan, const RunPlan& base,
                           const std::vector<config::Recomputation>& of_blocks) {
  RunPlan result = plan;
  result.recompute = of_blocks;
  result.model = recompute_blocks(base.model, of_blocks);
  result.stage_layers.clear();
  for (int32_t stage = 0; stage < std::ssize(base.stage_layers); ++stage) {
    if (stage > 0) result.stage_layers.back().end = index_in(result.model, base.layers_of(stage).front());
    const int64_t begin = stage > 0 ? result.stage_layers.back().end : 0;
    result.stage_layers.push_back({.begin = begin, .end = std::ssize(result.model.layers)});
  }
  return result;
}

/// Makes of plan.recompute, where it is kAuto, the choice with which the schedule keeps the memory limit and
/// takes the shortest time. A schedule that is arranged for times and memory may trade one for the other, so
/// several amounts of recomputation are tried with it; with a fixed one, more than the least only takes
/// longer.
void arrange_with_least_recomputation(RunPlan& plan, const layers::ModelSpec& model,
                                      const schedule::PipelineShape& shape, const PartTimes& measured) {
  RunPlan base = plan;
  base.strategy.memory_limit_bytes.reset();
  base.model = with_blocks_in_one_stage(model);
  base.stage_layers = cut_model(base.model, shape, plan.microbatch());
  arrange(base, shape, measured);
  const bool is_fixed =
      plan.strategy.schedule || !schedule::mode_of(plan.strategy.schedule_mode).arranges_for_times;
  const int64_t limit = *plan.strategy.memory_limit_bytes;
  std::vector<std::vector<config::Recomputation>> candidates;
  if (is_fixed) {
    candidates.push_back(least_recomputation(base, limit));
  } else {
    candidates = recomputation_candidates(base, limit);
  }
  std::optional<RunPlan> best;
  schedule::Seconds shortest{0};  // its step
  std::string reason;
  for (const std::vector<config::Recomputation>& of_blocks : candidates) {
    RunPlan candidate = with_recomputation(plan, base, of_blocks);
    try {
      arrange(candidate, shape, measured);
    } catch (const ConfigError& error) {
      reason = error.what();
      continue;
    }
    const schedule::Seconds time = schedule::simulate(candidate.compute, candidate.durations).step_time;
    if (best && time >= shortest) continue;
    shortest = time;
    best = std::move(candidate);
  }
  require<ConfigError>(best.has_value(), "even with all that can be recomputed, ", reason);
  plan = std::move(*best);
}

/// B of microbatches out of order would add up early gradients out of order.
void require_backwards_in_order(const schedule::Schedule& compute) {
  for (const std::vector<schedule::Action>& list : compute.ranks) {
    std::vector<int32_t> next(static_cast<size_t>(compute.shape.chunks_per_rank), 0);
    for (const schedule::Action& action : list) {
      if (action.op != schedule::Op::kBackward && action.op != schedule::Op::kBackwardInput) continue;
      require<ConfigError>(
          action.microbatch == next[static_cast<size_t>(action.chunk)]++,
          "early_weight_gradients needs the backward passes of a chunk in the order of their "
          "microbatches, but ",
          compute.name, " has ", to_string(action), " elsewhere");
    }
  }
}

}  // namespace

std::span<const layers::LayerSpec> RunPlan::layers_of(int32_t stage) const {
  const tensor::Range& range = stage_layers.at(static_cast<size_t>(stage));
  return std::span(model.layers).subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

std::vector<std::span<const layers::LayerSpec>> RunPlan::layers_of_rank(int32_t rank) const {
  std::vector<std::span<const layers::LayerSpec>> result;
  for (int32_t chunk = 0; chunk < compute.shape.chunks_per_rank; ++chunk) {
    result.push_back(layers_of(schedule::stage_of(compute, {.rank = rank, .chunk = chunk})));
  }
  return result;
}

cost::MicrobatchShape RunPlan::microbatch(int32_t mp_index) const {
  return {.sequences = training.microbatch_sequences,
          .sequence_tokens = training.sequence_tokens,
          .element_bytes = static_cast<int64_t>(c10::elementSize(dtype_of(training.precision))),
          .wide_element_bytes = 4,
          .mp_index = mp_index,
          .mp_degree = strategy.mesh.mp,
          .sequence_parallel = strategy.sequence_parallel && strategy.mesh.mp > 1};
}

const RankPlan& RunPlan::rank_at(const mesh::Coordinates& coordinates) const {
  return ranks.at(static_cast<size_t>(coordinates.pp) * static_cast<size_t>(strategy.mesh.mp) +
                  static_cast<size_t>(coordinates.mp));
}

LayoutOptions RunPlan::layout() const {
  return {.cut = {.bytes = strategy.segment_bytes, .anchors = strategy.segment_anchors},
          .parts = holding({}).parts,
          .tied = tied ? tied->slices.front().name : std::string(),
          .forward_gradients_apart =
              strategy.mesh.sharding > 1 && strategy.reduce_timing() == config::ReduceTiming::kMicrobatch};
}

tensor::SegmentHolding RunPlan::holding(const mesh::Coordinates& coordinates) const {
  if (strategy.mesh.sharding == 1) return {};
  tensor::SegmentHolding holding = {.only_own_gradients =
                                        strategy.reduce_timing() == config::ReduceTiming::kMicrobatch};
  if (strategy.sharding_stage == 0) return holding;
  holding.parts = strategy.mesh.sharding;
  holding.part = coordinates.sharding;
  holding.only_own_values = strategy.sharding_stage == 3;
  return holding;
}

int64_t PlannedTie::whole_numel() const {
  int64_t sum = 0;
  for (const tensor::TensorSlice& slice : slices)
    sum += tensor::whole_tensor(slice.name, slice.whole).numel();
  return sum;
}

bool needs_times(const config::Strategy& strategy) {
  return !strategy.durations && !strategy.schedule &&
         schedule::mode_of(strategy.schedule_mode).arranges_for_times;
}

at::ScalarType dtype_of(config::Precision precision) {
  switch (precision) {
    case config::Precision::kFloat32:
      return at::kFloat;
    case config::Precision::kBfloat16:
      return at::kBFloat16;
    case config::Precision::kFloat16:
      return at::kHalf;
  }
  throw InternalError("there is no such precision");
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

std::vector<tensor::Range> cut_into_stages(std::span<const layers::LayerSpec> layers,
                                           const cost::MicrobatchShape& shape, int64_t stages) {
  // Blocks of layers that stay together, the loss apart: cost::partition puts it with the last.
  std::vector<double> costs = {0};
  std::vector<int64_t> begins;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::unique_ptr<layers::Layer> layer =
        layers::make_without_data(layers[i], layers::placement_of(shape));
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

RunPlan make_run_plan(const config::Strategy& strategy, const config::TrainingOptions& training,
                      const layers::ModelSpec& model, const PartTimes& measured, c10::DeviceType device) {
  config::validate(strategy);
  config::validate(training);
  const schedule::PipelineShape shape = shape_of(strategy, training);
  RunPlan plan = {.strategy = strategy, .device = device, .training = training};
  const layers::ModelSpec plain = with_early_gradients(strategy, model);
  plan.recompute = recomputation_of(strategy, plain);

  // 1. The cut and the schedule.
  if (strategy.recompute == config::Recomputation::kAuto) {
    arrange_with_least_recomputation(plan, plain, shape, measured);
  } else {
    plan.model = recompute_blocks(plain, plan.recompute);
    plan.stage_layers = cut_model(plan.model, shape, plan.microbatch());
    arrange(plan, shape, measured);
  }
  plan.strategy.segment_anchors = anchors_in(plan.model, model, strategy.segment_anchors);
  if (strategy.early_weight_gradients) require_backwards_in_order(plan.compute);
  if (strategy.mesh.mp > 1) place_weights_in_hand(plan);
  const cost::MicrobatchShape microbatch = plan.microbatch();

  // 2. The end of the step, which depends on where the schedule puts the stages.
  const std::vector<PlacedParameter> parameters = parameters_of(plan);
  plan.tied = find_tie(plan, parameters);
  // A float16 update waits for the norm in any case: it is not done if gradients overflowed.
  const bool waits = training.max_grad_norm > 0 || training.precision == config::Precision::kFloat16;
  schedule::StepEnd step_end = {.norm_use = waits ? schedule::NormUse::kScalesUpdate
                                                  : schedule::NormUse::kReportedOnly};
  if (plan.tied) step_end.tied.push_back(plan.tied->stages);

  // 3. What data ranks do together.
  const std::vector<std::vector<tensor::Range>> groups = stage_groups(plan, microbatch);
  plan.memory_bytes.segments = segment_memory(plan, microbatch, groups);
  plan.step = schedule::lower(
      plan.compute,
      {.receives = strategy.receives, .step_end = step_end, .data = data_axes(strategy, groups)});

  // 4. What that takes on each rank.
  plan.ranks = plan_ranks(plan);
  return plan;
}

}  // namespace braid::train
