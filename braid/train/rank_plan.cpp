#include "braid/train/rank_plan.h"

#include <algorithm>
#include <tuple>

#include "braid/schedule/memory.h"
#include "braid/train/segment_plan.h"

namespace braid::train {
namespace {

using layers::add_traffic;

/// What a rank sends and receives over the pipeline's links in a step: an activation and a gradient for each
/// microbatch and boundary between stages of two ranks, and a tied weight's gradient both ways.
comm::MessageTraffic step_messages(const RunPlan& plan, int32_t rank, int64_t tied_numel,
                                   const cost::MicrobatchShape& microbatch) {
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
  const int64_t bytes = microbatch.own_tokens() * plan.model.hidden * microbatch.element_bytes;
  for (int32_t stage = 0; stage + 1 < plan.stages(); ++stage) {
    const int32_t here = schedule::place_of(plan.compute, stage).rank;
    const int32_t next = schedule::place_of(plan.compute, stage + 1).rank;
    add(here, next, comm::MessageKind::kActivation, plan.compute.shape.microbatches, bytes);
    add(next, here, comm::MessageKind::kGradient, plan.compute.shape.microbatches, bytes);
  }
  if (plan.tied) {
    const int64_t gradient = tied_numel * microbatch.wide_element_bytes;
    add(plan.tied->first_rank, plan.tied->last_rank, comm::MessageKind::kTiedGradient, 1, gradient);
    add(plan.tied->last_rank, plan.tied->first_rank, comm::MessageKind::kTiedGradient, 1, gradient);
  }
  return traffic;
}

/// What a rank's layers send within its mp group in a step.
comm::CollectiveTraffic layer_messages(const RunPlan& plan, int32_t rank, const RankLayout& layout,
                                       const cost::MicrobatchShape& microbatch) {
  comm::CollectiveTraffic sum;
  const auto add_layers = [&](const schedule::Action& action) {
    const std::vector<tensor::Range> groups = layout.stages[static_cast<size_t>(action.chunk)].groups();
    const std::span<const layers::LayerSpec> layers =
        plan.layers_of(schedule::stage_of(plan.step, {.rank = rank, .chunk = action.chunk}));
    const tensor::Range range = action.segment == schedule::kAllSegments
                                    ? tensor::Range{0, std::ssize(layers)}
                                    : groups[static_cast<size_t>(action.segment)];
    for (int64_t i = range.begin; i < range.end; ++i) {
      const layers::MpMessages messages = layers::messages_of(layers[static_cast<size_t>(i)], microbatch);
      add_traffic(sum, action.op == schedule::Op::kForward         ? messages.forward
                       : action.op == schedule::Op::kBackward      ? messages.backward
                       : action.op == schedule::Op::kBackwardInput ? messages.backward_input
                                                                   : messages.backward_weight);
    }
  };
  for (const schedule::Action& action : plan.step.ranks[static_cast<size_t>(rank)]) {
    if (!is_compute(action.op)) continue;
    add_layers(action);
    if (action.weight.exists()) add_layers(*weight_action(action));
  }
  return sum;
}

RankPlan plan_rank(const RunPlan& plan, int32_t rank, int32_t mp_index, int64_t kept, int32_t handovers) {
  const cost::MicrobatchShape microbatch = plan.microbatch(mp_index);
  RankPlan mine;
  for (int32_t chunk = 0; chunk < plan.compute.shape.chunks_per_rank; ++chunk) {
    mine.stages.push_back(schedule::stage_of(plan.compute, {.rank = rank, .chunk = chunk}));
  }
  const RankLayout layout = lay_out_rank(plan.layers_of_rank(rank), plan.layout(), microbatch.element_bytes,
                                         layers::placement_of(microbatch));
  const SegmentPlan segments = plan_segments(plan, rank, layout, microbatch);
  mine.parameters = segments.parameters;
  mine.tied_numel = segments.tied_numel;
  mine.collectives = segments.collectives;
  if (plan.strategy.mesh.mp > 1) {
    add_traffic(mine.collectives[mesh::Axis::kMp], layer_messages(plan, rank, layout, microbatch));
  }
  mine.memory = {
      .weights = segments.held.weights,
      .gradients = segments.held.gradients,
      .optimizer_states = segments.held.optimizer_states,
      .kept_activations = kept,
      .buffers = handovers * microbatch.own_tokens() * plan.model.hidden * microbatch.element_bytes +
                 plan.model.table_bytes,
      .segments = segments.held.segments,
      .offloaded_states = segments.held.offloaded_states};
  if (plan.tied && !plan.tied->is_local() &&
      (rank == plan.tied->first_rank || rank == plan.tied->last_rank)) {
    mine.memory.buffers += mine.tied_numel * microbatch.wide_element_bytes;  // the other rank's gradient
  }
  mine.messages = step_messages(plan, rank, mine.tied_numel, microbatch);
  return mine;
}

}  // namespace

std::vector<RankPlan> plan_ranks(const RunPlan& plan) {
  const std::vector<int64_t> kept = schedule::peak_memory(plan.step, plan.memory_bytes);
  const std::vector<int32_t> handovers = schedule::peak_handovers(plan.step);
  std::vector<RankPlan> ranks;
  for (int32_t rank = 0; rank < plan.compute.shape.ranks; ++rank) {
    for (int32_t mp_index = 0; mp_index < plan.strategy.mesh.mp; ++mp_index) {
      ranks.push_back(plan_rank(plan, rank, mp_index, kept[static_cast<size_t>(rank)],
                                handovers[static_cast<size_t>(rank)]));
    }
  }
  return ranks;
}

}  // namespace braid::train
