#include "braid/schedule/memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {
namespace {

void validate(const Memory& memory, const PipelineShape& shape) {
  const auto given = std::ssize(memory.stages);
  require<ConfigError>(given == 1 || given == shape.stages(),
                       "memory is needed for 1 stage (it holds for all) or ", shape.stages(), " stages, got ",
                       given);
  const int64_t most =
      std::numeric_limits<int64_t>::max() / (int64_t{2} * shape.chunks_per_rank * shape.microbatches);
  for (const StageMemory& stage : memory.stages) {
    for (const int64_t bytes : {stage.forward_to_backward, stage.backward_to_weight}) {
      require<ConfigError>(0 <= bytes && bytes <= most,
                           "what a stage keeps of a microbatch must be between 0 and ", most, ", got ",
                           bytes);
    }
  }
}

// The most that `action`, which has a W in hand, adds to what `rank` keeps after any of its layers.
int64_t rise_within(const Schedule& schedule, const Memory& memory, int32_t rank, const Action& action) {
  // Of equal layers, each adds as much as the others. One segment works on the same layers as its W, which
  // frees what each of them has kept.
  if (memory.layers.empty() || action.segment != kAllSegments) return 0;
  const auto layers_of = [&](int32_t chunk) -> const std::vector<StageMemory>& {
    return memory.layers[static_cast<size_t>(stage_of(schedule, {.rank = rank, .chunk = chunk}))];
  };
  const std::vector<StageMemory>& own = layers_of(action.chunk);
  const std::vector<StageMemory>& others = layers_of(action.weight.chunk);
  int64_t now = 0;
  int64_t most = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    // F runs from the first layer to the last, I and W from the last to the first.
    const StageMemory& layer = action.op == Op::kForward ? own[i] : own[own.size() - 1 - i];
    now += action.op == Op::kForward ? layer.forward_to_backward
                                     : layer.backward_to_weight - layer.forward_to_backward;
    if (i < others.size()) now -= others[others.size() - 1 - i].backward_to_weight;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

std::string amount_text(const Memory& memory, int64_t amount) {
  if (memory.scale == 1) return cat(amount);
  const auto scale = static_cast<double>(memory.scale);
  const double exact = static_cast<double>(amount) / scale;
  for (int digits = 6; digits < std::numeric_limits<double>::max_digits10; ++digits) {
    std::string text = brief(exact, digits);
    if (std::llround(parse_double(text).value_or(0.0) * scale) == amount) return text;
  }
  return to_text(exact);
}

int64_t memory_change(const Schedule& schedule, const Memory& memory, int32_t rank, const Action& action) {
  if (action.weight.exists()) {
    Action alone = action;
    alone.weight = {};
    return memory_change(schedule, memory, rank, alone) +
           memory_change(schedule, memory, rank, *weight_action(action));
  }
  const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
  const StageMemory& kept =
      action.segment == kAllSegments
          ? memory.of(stage)
          : memory.segments[static_cast<size_t>(stage)][static_cast<size_t>(action.segment)];
  switch (action.op) {
    case Op::kForward:
      return kept.forward_to_backward;
    case Op::kBackward:
      return -kept.forward_to_backward;
    case Op::kBackwardInput:
      return kept.backward_to_weight - kept.forward_to_backward;
    case Op::kBackwardWeight:
      return -kept.backward_to_weight;
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
    case Op::kGather:
    case Op::kWaitGather:
    case Op::kRelease:
    case Op::kReduce:
    case Op::kWaitReduce:
    case Op::kReduceDp:
    case Op::kWaitReduceDp:
      return 0;
  }
  return 0;
}

std::vector<int64_t> peak_memory(const Schedule& schedule, const Memory& memory) {
  validate(schedule);
  validate(memory, schedule.shape);
  std::vector<int64_t> peaks;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    int64_t now = 0;
    int64_t peak = 0;
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (action.weight.exists()) peak = std::max(peak, now + rise_within(schedule, memory, rank, action));
      now += memory_change(schedule, memory, rank, action);
      peak = std::max(peak, now);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

int32_t handover_change(const Schedule& schedule, int32_t rank, const Action& action) {
  int32_t change = 0;
  if (is_receive(action.op)) ++change;
  if (is_wait_send(action.op)) --change;
  if (input_of(schedule, rank, action)) --change;
  if (output_of(schedule, rank, action)) ++change;
  // From one segment of the chunk to the next.
  const bool passes_up = action.op == Op::kForward;
  if (passes_up || is_input_gradient(action.op)) {
    if (!(passes_up ? includes_first_segment(action) : includes_last_segment(schedule, rank, action)))
      --change;
    if (!(passes_up ? includes_last_segment(schedule, rank, action) : includes_first_segment(action)))
      ++change;
  }
  return change;
}

std::vector<int32_t> peak_handovers(const Schedule& schedule) {
  validate(schedule);
  std::vector<int32_t> peaks;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    int32_t now = 0;
    int32_t peak = 0;
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      now += handover_change(schedule, rank, action);
      peak = std::max(peak, now);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

void require_within(const Schedule& schedule, const Memory& memory, int64_t limit) {
  const std::vector<int64_t> peaks = peak_memory(schedule, memory);
  const auto highest = std::max_element(peaks.begin(), peaks.end());
  require<ConfigError>(*highest <= limit, schedule.name, " keeps ", amount_text(memory, *highest),
                       " on rank ", highest - peaks.begin(), ", more than the limit of ",
                       amount_text(memory, limit),
                       ": raise the limit, or take a schedule that keeps less (V-Half, V-Min, auto)");
}

}  // namespace braid::schedule
