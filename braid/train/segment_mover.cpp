#include "braid/train/segment_mover.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::train {

using schedule::Op;

bool is_made_in_forward(const tensor::SegmentLayout& layout) {
  return std::ranges::any_of(
      layout.members, [](const tensor::Parameter* parameter) { return parameter->gradient_in_forward; });
}

SegmentMover::SegmentMover(RankModel& model, const schedule::Schedule& step, comm::Communicator* sharding,
                           comm::Communicator* dp)
    : data_(step.data), microbatches_(step.shape.microbatches), sharding_(sharding), dp_(dp) {
  for (StageModel& stage : model.stages) {
    std::vector<Slot>& slots = slots_.emplace_back();
    for (tensor::Segment& segment : stage.segments) {
      slots.push_back({.segment = &segment, .made_in_forward = is_made_in_forward(segment.layout)});
    }
    for (tensor::Segment& segment : stage.tied_segments) {
      slots.push_back(
          {.segment = &segment, .is_tied_user = true, .made_in_forward = is_made_in_forward(segment.layout)});
    }
    std::ranges::stable_sort(slots, {}, [](const Slot& slot) { return slot.segment->layout.group; });
  }
}

bool SegmentMover::reduces_each_microbatch(const Slot& slot) const {
  return data_.has_sharding && data_.reduces_each_microbatch && !slot.made_in_forward;
}

template <typename Visit>
void SegmentMover::for_each(int32_t chunk, int32_t segment, const Visit& visit) {
  for (Slot& slot : slots_[static_cast<size_t>(chunk)]) {
    if (segment == schedule::kAllSegments || slot.segment->layout.group == segment) visit(slot);
  }
}

void SegmentMover::perform(const schedule::Action& action) {
  for_each(action.chunk, action.segment, [&](Slot& slot) {
    switch (action.op) {
      case Op::kGather:
        return gather(slot);
      case Op::kWaitGather:
        return wait_gather(slot);
      case Op::kRelease:
        return release(slot);
      case Op::kReduce:
        return reduce(slot);
      case Op::kWaitReduce:
        return wait_reduce(slot);
      case Op::kReduceDp:
        return reduce_dp(slot);
      case Op::kWaitReduceDp:
        return wait_reduce_dp(slot);
      case Op::kForward:
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
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
        throw InternalError(cat(schedule::to_string(action), " moves no segment"));
    }
  });
}

void SegmentMover::prepare_gradients(int32_t chunk, int32_t segment) {
  for_each(chunk, segment, [&](Slot& slot) {
    if (!slot.segment->gradients.defined())
      slot.segment->bind_gradients(tensor::empty_gradients(*slot.segment));
  });
}

void SegmentMover::gather(Slot& slot) {
  tensor::Segment& segment = *slot.segment;
  if (!data_.gathers_before_use()) {
    if (!slot.is_tied_user) slot.values = sharding_->all_gather_into(segment.values);
    return;
  }
  slot.gathered = at::empty({segment.layout.numel}, segment.own_values.options());
  slot.gathered.narrow(0, segment.own.begin, segment.own.size()).copy_(segment.own_values);
  slot.values = sharding_->all_gather_into(slot.gathered);
}

void SegmentMover::wait_gather(Slot& slot) {
  slot.values.wait();
  if (data_.gathers_before_use()) slot.segment->bind_values(std::exchange(slot.gathered, {}));
}

void SegmentMover::release(Slot& slot) { slot.segment->bind_values({}); }

void SegmentMover::reduce(Slot& slot) {
  const int32_t reductions = data_.reduces_each_microbatch ? microbatches_ : 1;
  if (slot.reductions == reductions) slot.reductions = 0;  // of the step before
  const bool is_last = ++slot.reductions == reductions;
  if (!is_last && !reduces_each_microbatch(slot)) return;
  tensor::Segment& segment = *slot.segment;
  segment.end_gradients();
  const bool has_whole = segment.own.size() == segment.layout.numel;
  const bool is_added = reduces_each_microbatch(slot) && slot.reductions > 1;
  if (has_whole) {
    slot.gradients = sharding_->all_reduce_sum(segment.gradients);
  } else {
    slot.partial = is_added ? at::empty_like(segment.own_gradients) : segment.own_gradients;
    slot.gradients = sharding_->reduce_scatter_sum(segment.gradients, slot.partial);
  }
}

void SegmentMover::wait_reduce(Slot& slot) {
  if (slot.gradients.done()) return;
  slot.gradients.wait();
  if (!reduces_each_microbatch(slot)) {
    slot.partial.reset();
    return;
  }
  tensor::Segment& segment = *slot.segment;
  const bool has_whole = segment.own.size() == segment.layout.numel;
  const at::Tensor& sum = has_whole ? segment.gradients : slot.partial;
  if (slot.reductions > 1) {
    segment.own_gradients.add_(sum);
  } else if (has_whole) {
    segment.own_gradients.copy_(sum);
  }
  slot.partial.reset();
  segment.bind_gradients({});
}

void SegmentMover::reduce_dp(Slot& slot) {
  if (!data_.has_sharding) slot.segment->end_gradients();
  slot.gradients = dp_->all_reduce_sum(slot.segment->own_gradients);
}

void SegmentMover::wait_reduce_dp(Slot& slot) { slot.gradients.wait(); }

void SegmentMover::gather_all_values() {
  if (!data_.gathers_before_use()) return;
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) {
      gather(slot);
      wait_gather(slot);
    }
  }
}

void SegmentMover::release_all_values() {
  if (!data_.gathers_before_use()) return;
  for (std::vector<Slot>& slots : slots_) {
    for (Slot& slot : slots) release(slot);
  }
}

}  // namespace braid::train
