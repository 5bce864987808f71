#include "braid/schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

bool is_odd(int32_t value) { return value % 2 != 0; }

bool contains(const Schedule& schedule, bool (*wanted)(Op)) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [&](const std::vector<Action>& list) {
    return std::any_of(list.begin(), list.end(), [&](const Action& action) { return wanted(action.op); });
  });
}

bool is_between_ranks(Op op) { return is_send(op) || is_receive(op); }

bool exists(const Schedule& schedule, int32_t rank, const Action& action) {
  const PipelineShape& shape = schedule.shape;
  const Indices indices = indices_of(action.op);
  const bool is_within = static_cast<int>(action.op) < kOpCount && 0 <= action.chunk &&
                         action.chunk < (indices == Indices::kNone ? 1 : shape.chunks_per_rank) &&
                         0 <= action.microbatch &&
                         action.microbatch < (indices == Indices::kMicrobatch ? shape.microbatches : 1);
  if (!is_within) return false;
  if (action.weight.exists()) {
    const bool has_weight = may_have_weight(action.op) && 0 <= action.weight.chunk &&
                            action.weight.chunk < shape.chunks_per_rank &&
                            action.weight.microbatch < shape.microbatches;
    const bool is_cut_alike = action.segment == kAllSegments || action.weight.chunk == action.chunk;
    if (!has_weight || !is_cut_alike) return false;
  }
  if (action.segment == kAllSegments) return !is_segment(action.op);
  const bool may_have_one = is_compute(action.op) || action.op == Op::kUpdate || is_segment(action.op);
  return may_have_one && schedule.data.is_on() && 0 <= action.segment &&
         action.segment < segments_of(schedule, stage_of(schedule, {.rank = rank, .chunk = action.chunk}));
}

void validate(const DataAxes& data, const Schedule& schedule) {
  if (!data.is_on()) return;
  require<ConfigError>(std::ssize(data.segments) == schedule.shape.stages(), "schedule ", schedule.name,
                       " has ", schedule.shape.stages(), " stages, but the segments of ",
                       data.segments.size(), " are given");
  for (const int32_t segments : data.segments) {
    require<ConfigError>(segments >= 1, "schedule ", schedule.name,
                         ": a stage must have at least 1 segment, got ", segments);
  }
  require<ConfigError>(0 <= data.sharding_stage && data.sharding_stage <= 3, "schedule ", schedule.name,
                       ": the sharding stage must be between 0 and 3, got ", data.sharding_stage);
}

void validate(const StepEnd& step_end, const Schedule& schedule) {
  std::vector<int32_t> seen;
  for (const auto& [first, last, made_in_forward] : step_end.tied) {
    require<ConfigError>(0 <= first && first <= last && last < schedule.shape.stages(), "schedule ",
                         schedule.name, ": stages ", first, " and ", last, " of ", schedule.shape.stages(),
                         " cannot be tied: give two that exist in ascending order");
    seen.push_back(first);
    if (first != last) seen.push_back(last);
  }
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  if (twice != seen.end()) {
    throw ConfigError(cat("schedule ", schedule.name, ": stage ", *twice, " is tied twice"));
  }
}

// The handover that leaves `stage` as `payload`; nothing at the end of the pipeline.
std::optional<Handover> leaving(const Schedule& schedule, int32_t stage, Payload payload,
                                int32_t microbatch) {
  const PipelineShape& shape = schedule.shape;
  const int32_t to_stage = payload == Payload::kActivation ? stage + 1 : stage - 1;
  if (stage < 0 || to_stage < 0 || stage >= shape.stages() || to_stage >= shape.stages()) return std::nullopt;
  const int64_t row = int64_t{payload == Payload::kActivation ? 0 : shape.stages()} + stage;
  return Handover{.payload = payload,
                  .from = place_of(schedule, stage),
                  .to = place_of(schedule, to_stage),
                  .microbatch = microbatch,
                  .tag = row * shape.microbatches + microbatch};
}

// The handover that arrives at `stage` as `payload`.
std::optional<Handover> arriving(const Schedule& schedule, int32_t stage, Payload payload,
                                 int32_t microbatch) {
  return leaving(schedule, payload == Payload::kActivation ? stage - 1 : stage + 1, payload, microbatch);
}

}  // namespace

void place_stages(Schedule& schedule, const std::vector<int32_t>& rank_of_stage) {
  const PipelineShape& shape = schedule.shape;
  validate(shape);
  require<ConfigError>(std::ssize(rank_of_stage) == shape.stages(), "schedule ", schedule.name, " has ",
                       shape.stages(), " stages, but the ranks of ", rank_of_stage.size(), " are given");
  StageTable table;
  table.stages.resize(rank_of_stage.size());
  std::vector<int32_t> held(static_cast<size_t>(shape.ranks), 0);
  for (int32_t stage = 0; stage < shape.stages(); ++stage) {
    const int32_t rank = rank_of_stage[static_cast<size_t>(stage)];
    require<ConfigError>(0 <= rank && rank < shape.ranks, "schedule ", schedule.name, ": stage ", stage,
                         " cannot be on rank ", rank, " of ", shape.ranks);
    const int32_t chunk = held[static_cast<size_t>(rank)]++;
    require<ConfigError>(chunk < shape.chunks_per_rank, "schedule ", schedule.name, ": rank ", rank,
                         " holds more than ", shape.chunks_per_rank,
                         " stages; every rank must hold the same number");
    table.places.push_back({.rank = rank, .chunk = chunk});
    table.stages[static_cast<size_t>(rank) * static_cast<size_t>(shape.chunks_per_rank) +
                 static_cast<size_t>(chunk)] = stage;
  }
  for (const Placement named : {Placement::kLooped, Placement::kV}) {
    schedule.placement = named;
    schedule.table = {};
    bool is_named = true;
    for (int32_t stage = 0; stage < shape.stages() && is_named; ++stage) {
      is_named = place_of(schedule, stage) == table.places[static_cast<size_t>(stage)];
    }
    if (is_named) return;
  }
  schedule.placement = Placement::kTable;
  schedule.table = std::move(table);
}

void validate(const PipelineShape& shape) {
  require<ConfigError>(shape.ranks >= 1, "a pipeline needs at least 1 rank, got ", shape.ranks);
  require<ConfigError>(shape.chunks_per_rank >= 1, "a pipeline rank needs at least 1 chunk, got ",
                       shape.chunks_per_rank);
  require<ConfigError>(shape.microbatches >= 1, "a step needs at least 1 microbatch, got ",
                       shape.microbatches);
  constexpr int64_t kMost = int64_t{1} << 28;
  const int64_t stages = int64_t{shape.ranks} * shape.chunks_per_rank;
  require<ConfigError>(stages <= kMost && stages * shape.microbatches <= kMost, "a schedule of ", shape.ranks,
                       " ranks x ", shape.chunks_per_rank, " chunks x ", shape.microbatches,
                       " microbatches is too large: their product may be at most ", kMost);
}

void validate(const Schedule& schedule) {
  validate(schedule.shape);
  require<ConfigError>(std::ssize(schedule.ranks) == schedule.shape.ranks, "schedule ", schedule.name,
                       " has ", schedule.ranks.size(), " rows for ", schedule.shape.ranks, " ranks");
  const size_t table_size =
      schedule.placement == Placement::kTable ? static_cast<size_t>(schedule.shape.stages()) : 0;
  require<ConfigError>(
      schedule.table.places.size() == table_size && schedule.table.stages.size() == table_size, "schedule ",
      schedule.name, " has a table of ", schedule.table.places.size(), " stages, expected ", table_size);
  validate(schedule.data, schedule);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      require_at(exists(schedule, rank, list[i]), schedule, rank, i, "there is no such action with ",
                 schedule.shape.chunks_per_rank, " chunks per rank and ", schedule.shape.microbatches,
                 " microbatches");
    }
  }
  validate(schedule.step_end, schedule);
}

Place place_of(const Schedule& schedule, int32_t stage) {
  if (schedule.placement == Placement::kTable) return schedule.table.places[static_cast<size_t>(stage)];
  const int32_t ranks = schedule.shape.ranks;
  const Place looped = {.rank = stage % ranks, .chunk = stage / ranks};
  if (schedule.placement == Placement::kLooped || !is_odd(looped.chunk)) return looped;
  return {.rank = ranks - 1 - looped.rank, .chunk = looped.chunk};
}

int32_t stage_of(const Schedule& schedule, Place place) {
  const int32_t ranks = schedule.shape.ranks;
  if (schedule.placement == Placement::kTable) {
    const size_t first =
        static_cast<size_t>(place.rank) * static_cast<size_t>(schedule.shape.chunks_per_rank);
    return schedule.table.stages[first + static_cast<size_t>(place.chunk)];
  }
  const bool backwards = schedule.placement == Placement::kV && is_odd(place.chunk);
  return place.chunk * ranks + (backwards ? ranks - 1 - place.rank : place.rank);
}

int32_t segments_of(const Schedule& schedule, int32_t stage) {
  return schedule.data.is_on() ? schedule.data.segments[static_cast<size_t>(stage)] : 1;
}

bool includes_first_segment(const Action& action) { return action.segment <= 0; }

bool includes_last_segment(const Schedule& schedule, int32_t rank, const Action& action) {
  if (action.segment == kAllSegments) return true;
  return action.segment + 1 ==
         segments_of(schedule, stage_of(schedule, {.rank = rank, .chunk = action.chunk}));
}

int64_t handover_count(const PipelineShape& shape) {
  return int64_t{2} * shape.stages() * shape.microbatches;
}

std::optional<Handover> input_of(const Schedule& schedule, int32_t rank, const Action& action) {
  if (action.op != Op::kForward && !is_input_gradient(action.op)) return std::nullopt;
  const bool is_first = action.op == Op::kForward ? includes_first_segment(action)
                                                  : includes_last_segment(schedule, rank, action);
  if (!is_first) return std::nullopt;
  const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
  const Payload payload = action.op == Op::kForward ? Payload::kActivation : Payload::kGradient;
  return arriving(schedule, stage, payload, action.microbatch);
}

std::optional<Handover> output_of(const Schedule& schedule, int32_t rank, const Action& action) {
  if (action.op != Op::kForward && !is_input_gradient(action.op)) return std::nullopt;
  const bool is_last = action.op == Op::kForward ? includes_last_segment(schedule, rank, action)
                                                 : includes_first_segment(action);
  if (!is_last) return std::nullopt;
  const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
  const Payload payload = action.op == Op::kForward ? Payload::kActivation : Payload::kGradient;
  return leaving(schedule, stage, payload, action.microbatch);
}

std::optional<Handover> message_of(const Schedule& schedule, int32_t rank, const Action& action) {
  const int32_t stage = stage_of(schedule, {.rank = rank, .chunk = action.chunk});
  switch (action.op) {
    case Op::kSendForward:
    case Op::kWaitSendForward:
      return leaving(schedule, stage, Payload::kActivation, action.microbatch);
    case Op::kSendBackward:
    case Op::kWaitSendBackward:
      return leaving(schedule, stage, Payload::kGradient, action.microbatch);
    case Op::kRecvForward:
      return arriving(schedule, stage, Payload::kActivation, action.microbatch);
    case Op::kRecvBackward:
      return arriving(schedule, stage, Payload::kGradient, action.microbatch);
    case Op::kForward:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
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
      return std::nullopt;
  }
  return std::nullopt;
}

Action send_action(const Handover& message) {
  return {.op = message.payload == Payload::kActivation ? Op::kSendForward : Op::kSendBackward,
          .chunk = message.from.chunk,
          .microbatch = message.microbatch};
}

Action receive_action(const Handover& message) {
  return {.op = message.payload == Payload::kActivation ? Op::kRecvForward : Op::kRecvBackward,
          .chunk = message.to.chunk,
          .microbatch = message.microbatch};
}

Action wait_action(const Handover& message) {
  return {.op = message.payload == Payload::kActivation ? Op::kWaitSendForward : Op::kWaitSendBackward,
          .chunk = message.from.chunk,
          .microbatch = message.microbatch};
}

bool uses(const Schedule& schedule, Op op) {
  return std::ranges::any_of(schedule.ranks, [&](const std::vector<Action>& list) {
    return std::ranges::find(list, op, &Action::op) != list.end();
  });
}

int64_t count_weights_in_hand(const Schedule& schedule) {
  int64_t count = 0;
  for (const std::vector<Action>& list : schedule.ranks) {
    count += std::ranges::count_if(list, [](const Action& action) { return action.weight.exists(); });
  }
  return count;
}

bool has_messages(const Schedule& schedule) { return contains(schedule, is_between_ranks); }

std::vector<TiedReduction> tied_reductions(const Schedule& schedule, int32_t rank) {
  std::vector<TiedReduction> result;
  for (const TiedStages& tied : schedule.step_end.tied) {
    const Place first = place_of(schedule, tied.first);
    const Place last = place_of(schedule, tied.last);
    if (first.rank == rank) {
      result.push_back({.chunk = first.chunk, .other = last, .counts_in_norm = true});
    } else if (last.rank == rank) {
      result.push_back({.chunk = last.chunk, .other = first, .made_in_forward = tied.last_made_in_forward});
    }
  }
  return result;
}

bool has_step_end(const Schedule& schedule) { return contains(schedule, is_step_end); }

std::string to_string(const Schedule& schedule) {
  std::string text = schedule.name + "\n";
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += cat("rank ", rank, ": ", to_string(schedule.ranks[rank]), "\n");
  }
  return text;
}

std::string location(const Schedule& schedule, int32_t rank, size_t position) {
  const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
  const std::string where = cat("schedule ", schedule.name, ", rank ", rank, ", ");
  if (position >= list.size()) return where + "the end";
  return cat(where, "position ", position, " (", to_string(list[position]), ")");
}

}  // namespace braid::schedule
