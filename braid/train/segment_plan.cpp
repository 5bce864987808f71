#include "braid/train/segment_plan.h"

#include <algorithm>

#include "braid/optim/staged_store.h"
#include "braid/train/segment_mover.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;

/// A segment of the rank, and what it takes in bytes.
struct Slot {
  int32_t group = 0;
  bool is_tied_user = false;
  bool reduces_each_microbatch = false;
  int64_t numel = 0;      ///< whole
  int64_t own_numel = 0;  ///< of what this rank updates
  int32_t reductions = 0;
  bool has_gradients = false;  ///< a buffer of the microbatch at work
};

/// Replays a rank's actions on its segments.
class Replay {
 public:
  Replay(const RunPlan& plan, int32_t rank, const RankLayout& layout, const cost::MicrobatchShape& microbatch)
      : plan_(plan),
        list_(plan.step.ranks[static_cast<size_t>(rank)]),
        value_bytes_(microbatch.element_bytes),
        wide_bytes_(microbatch.wide_element_bytes) {
    const tensor::SegmentHolding holding = plan.holding({});
    for (const RankLayout::Stage& stage : layout.stages) {
      std::vector<Slot>& slots = slots_.emplace_back();
      for (const auto* segments : {&stage.segments, &stage.tied_segments}) {
        for (const tensor::SegmentLayout& segment : *segments) {
          slots.push_back(
              {.group = segment.group,
               .is_tied_user = segments == &stage.tied_segments,
               .reduces_each_microbatch = holding.only_own_gradients && !is_made_in_forward(segment),
               .numel = segment.numel,
               .own_numel = segment.numel / holding.parts});
        }
      }
    }
  }

  const std::vector<std::vector<Slot>>& slots() const { return slots_; }
  const std::map<mesh::Axis, comm::CollectiveTraffic>& traffic() const { return traffic_; }

  /// Bytes after each action.
  std::vector<int64_t> run() {
    std::vector<int64_t> result;
    const auto perform_all = [&](const Action& action) {
      for (Slot& slot : slots_[static_cast<size_t>(action.chunk)]) {
        if (action.segment == schedule::kAllSegments || action.segment == slot.group) perform(action, slot);
      }
    };
    for (const Action& action : list_) {
      perform_all(action);
      if (action.weight.exists()) perform_all(*weight_action(action));
      result.push_back(bytes_);
    }
    return result;
  }

 private:
  void perform(const Action& action, Slot& slot) {
    const schedule::DataAxes& data = plan_.step.data;
    const int64_t sharding = plan_.strategy.mesh.sharding, dp = plan_.strategy.mesh.dp;
    const int64_t values = slot.numel * value_bytes_, gradients = slot.numel * wide_bytes_;
    const int64_t own_gradients = slot.own_numel * wide_bytes_;
    const bool moves_values = data.gathers_before_use() || !slot.is_tied_user;
    const bool has_whole = slot.own_numel == slot.numel;
    switch (action.op) {
      case Op::kBackward:
      case Op::kBackwardWeight:
        if (slot.reduces_each_microbatch && !slot.has_gradients) {
          slot.has_gradients = true;
          bytes_ += gradients;
        }
        return;
      case Op::kGather:
        if (!moves_values) return;
        bytes_ += (data.gathers_before_use() ? 2 : 1) * values;
        add(mesh::Axis::kSharding, comm::Collective::kAllGather, (sharding - 1) * (values / sharding));
        return;
      case Op::kWaitGather:
        if (moves_values) bytes_ -= values;
        return;
      case Op::kRelease:
        bytes_ -= values;
        return;
      case Op::kReduce: {
        const int32_t reductions = data.reduces_each_microbatch ? plan_.step.shape.microbatches : 1;
        ++slot.reductions;
        if (!slot.reduces_each_microbatch && slot.reductions < reductions) return;
        if (has_whole) {
          bytes_ += all_reduce_scratch(slot.numel, sharding);
          add(mesh::Axis::kSharding, comm::Collective::kAllReduceSum, all_reduce_bytes(slot.numel, sharding));
        } else {
          bytes_ += gradients + (is_added(slot) ? own_gradients : 0);
          add(mesh::Axis::kSharding, comm::Collective::kReduceScatterSum, (sharding - 1) * own_gradients);
        }
        return;
      }
      case Op::kWaitReduce: {
        const int32_t reductions = data.reduces_each_microbatch ? plan_.step.shape.microbatches : 1;
        if (!slot.reduces_each_microbatch && slot.reductions < reductions) return;
        bytes_ -= has_whole ? all_reduce_scratch(slot.numel, sharding)
                            : gradients + (is_added(slot) ? own_gradients : 0);
        if (slot.reduces_each_microbatch) {
          bytes_ -= gradients;
          slot.has_gradients = false;
        }
        return;
      }
      case Op::kReduceDp:
        bytes_ += all_reduce_scratch(slot.own_numel, dp);
        add(mesh::Axis::kDp, comm::Collective::kAllReduceSum, all_reduce_bytes(slot.own_numel, dp));
        return;
      case Op::kWaitReduceDp:
        bytes_ -= all_reduce_scratch(slot.own_numel, dp);
        return;
      case Op::kForward:
      case Op::kBackwardInput:
      case Op::kSendForward:
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward:
      case Op::kReduceTied:
      case Op::kWaitReduceTied:
      case Op::kNorm:
      case Op::kWaitNorm:
      case Op::kUpdate:
        return;
    }
  }

  static bool is_added(const Slot& slot) { return slot.reduces_each_microbatch && slot.reductions > 1; }

  // As Communicator::all_reduce_sum documents, of its first member.
  static int64_t first_shard(int64_t numel, int64_t ranks) { return (numel + ranks - 1) / ranks; }
  int64_t all_reduce_scratch(int64_t numel, int64_t ranks) const {
    return ranks * first_shard(numel, ranks) * wide_bytes_;
  }
  int64_t all_reduce_bytes(int64_t numel, int64_t ranks) const {
    return (numel + (ranks - 2) * first_shard(numel, ranks)) * wide_bytes_;
  }

  void add(mesh::Axis axis, comm::Collective collective, int64_t bytes) {
    traffic_[axis].add(collective, bytes);
  }

  const RunPlan& plan_;
  const std::vector<Action>& list_;
  int64_t value_bytes_;
  int64_t wide_bytes_;
  std::vector<std::vector<Slot>> slots_;  // by chunk
  std::map<mesh::Axis, comm::CollectiveTraffic> traffic_;
  int64_t bytes_ = 0;
};

/// Adds the optimizer's states of one stage, where the strategy keeps them.
void add_states(const RunPlan& plan, std::span<const optim::StatesSize> states, PlannedMemory& memory) {
  int64_t bytes = 0;
  for (const optim::StatesSize& segment : states) bytes += segment.bytes();
  if (!plan.strategy.offloads_optimizer) {
    memory.optimizer_states += bytes;
    return;
  }
  memory.offloaded_states += bytes;
  if (plan.device == c10::kCPU) return;  // updated where they are
  memory.optimizer_states += optim::staged_bytes(
      states, plan.strategy.offload_dir.empty() ? optim::HostMemory::kPinned : optim::HostMemory::kPageable);
}

}  // namespace

std::vector<int64_t> segment_bytes(const RunPlan& plan, int32_t rank, const RankLayout& layout,
                                   const cost::MicrobatchShape& microbatch) {
  return Replay(plan, rank, layout, microbatch).run();
}

SegmentPlan plan_segments(const RunPlan& plan, int32_t rank, const RankLayout& layout,
                          const cost::MicrobatchShape& microbatch) {
  SegmentPlan result;
  const tensor::SegmentHolding holding = plan.holding({});
  const int64_t value_bytes = microbatch.element_bytes, wide_bytes = microbatch.wide_element_bytes;
  // AdamW has two moments of each element, and a master weight where the value itself is not that precise.
  const bool has_masters = value_bytes < wide_bytes;
  const auto add_partial_sum = [&](const tensor::SegmentLayout& segment) {
    if (segment.partial_over == 1) return;
    const int64_t numel = segment.numel / holding.parts, ranks = segment.partial_over;
    const int64_t shard = (numel + ranks - 1) / ranks;
    result.collectives[mesh::Axis::kMp].add(comm::Collective::kAllReduceSum,
                                            (numel + (ranks - 2) * shard) * wide_bytes);
  };
  for (const RankLayout::Stage& stage : layout.stages) {
    for (const auto* segments : {&stage.segments, &stage.tied_segments}) {
      for (const tensor::SegmentLayout& segment : *segments) {
        add_partial_sum(segment);
        const bool is_tied = plan.tied && segment.is_apart &&
                             segment.members.front()->slices.front().name == plan.tied->slices.front().name;
        if (is_tied) result.tied_numel = segment.numel / holding.parts;
      }
    }
    std::vector<optim::StatesSize> states;
    for (const tensor::SegmentLayout& segment : stage.segments) {
      for (const tensor::Parameter* parameter : segment.members) result.parameters += parameter->numel();
      const int64_t own = segment.numel / holding.parts;
      result.held.weights += (holding.only_own_values ? own : segment.numel) * value_bytes;
      states.push_back({.numel = own, .element_bytes = wide_bytes, .has_master = has_masters});
    }
    add_states(plan, states, result.held);
    for (const auto* segments : {&stage.segments, &stage.tied_segments}) {
      for (const tensor::SegmentLayout& segment : *segments) {
        const bool only_own = holding.only_own_gradients && !is_made_in_forward(segment);
        result.held.gradients += (only_own ? segment.numel / holding.parts : segment.numel) * wide_bytes;
      }
    }
  }
  Replay replay(plan, rank, layout, microbatch);
  const std::vector<int64_t> bytes = replay.run();
  result.held.segments = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  for (const auto& [axis, traffic] : replay.traffic()) result.collectives[axis] = traffic;
  return result;
}

}  // namespace braid::train
