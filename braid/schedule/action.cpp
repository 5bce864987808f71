#include "braid/schedule/action.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {
namespace {

struct Traits {
  std::string_view text = "UNKNOWN_OP";
  OpClass op_class = OpClass::kCompute;
  Indices indices = Indices::kMicrobatch;
};

constexpr Traits traits_of(Op op) {
  switch (op) {
    case Op::kForward:
      return {"F", OpClass::kCompute};
    case Op::kBackward:
      return {"B", OpClass::kCompute};
    case Op::kBackwardInput:
      return {"I", OpClass::kCompute};
    case Op::kBackwardWeight:
      return {"W", OpClass::kCompute};
    case Op::kSendForward:
      return {"SEND_F", OpClass::kSend};
    case Op::kRecvForward:
      return {"RECV_F", OpClass::kReceive};
    case Op::kSendBackward:
      return {"SEND_B", OpClass::kSend};
    case Op::kRecvBackward:
      return {"RECV_B", OpClass::kReceive};
    case Op::kWaitSendForward:
      return {"WAIT_SEND_F", OpClass::kWaitSend};
    case Op::kWaitSendBackward:
      return {"WAIT_SEND_B", OpClass::kWaitSend};
    case Op::kReduceTied:
      return {"REDUCE_TIED", OpClass::kStepEnd, Indices::kChunk};
    case Op::kWaitReduceTied:
      return {"WAIT_REDUCE_TIED", OpClass::kStepEnd, Indices::kChunk};
    case Op::kNorm:
      return {"NORM", OpClass::kStepEnd, Indices::kNone};
    case Op::kWaitNorm:
      return {"WAIT_NORM", OpClass::kStepEnd, Indices::kNone};
    case Op::kUpdate:
      return {"UPDATE", OpClass::kStepEnd, Indices::kChunk};
    case Op::kGather:
      return {"GATHER", OpClass::kSegment, Indices::kSegment};
    case Op::kWaitGather:
      return {"WAIT_GATHER", OpClass::kSegment, Indices::kSegment};
    case Op::kRelease:
      return {"RELEASE", OpClass::kSegment, Indices::kSegment};
    case Op::kReduce:
      return {"REDUCE", OpClass::kSegment, Indices::kSegment};
    case Op::kWaitReduce:
      return {"WAIT_REDUCE", OpClass::kSegment, Indices::kSegment};
    case Op::kReduceDp:
      return {"REDUCE_DP", OpClass::kSegment, Indices::kSegment};
    case Op::kWaitReduceDp:
      return {"WAIT_REDUCE_DP", OpClass::kSegment, Indices::kSegment};
  }
  return {};
}

std::optional<Op> parse_op(std::string_view text) {
  for (int i = 0; i < kOpCount; ++i) {
    if (traits_of(static_cast<Op>(i)).text == text) return static_cast<Op>(i);
  }
  return std::nullopt;
}

std::optional<int32_t> parse_index(std::string_view text) {
  const std::optional<int64_t> value = parse_int(text);
  if (!value || *value < 0 || *value > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(*value);
}

bool may_have_segment(Op op) { return is_compute(op) || op == Op::kUpdate || is_segment(op); }

std::optional<Action> try_parse_alone(std::string_view text) {
  const size_t op_end = std::min(text.find_first_of("0123456789cs"), text.size());
  const std::optional<Op> op = parse_op(text.substr(0, op_end));
  if (!op) return std::nullopt;
  std::string_view rest = text.substr(op_end);
  const std::string_view microbatch_text = rest.substr(0, rest.find_first_of("cs"));
  rest.remove_prefix(microbatch_text.size());
  const std::string_view chunk_text = rest.starts_with('c') ? rest.substr(0, rest.find('s')) : "";
  const std::string_view segment_text = rest.substr(chunk_text.size());
  const bool has_microbatch = indices_of(*op) == Indices::kMicrobatch;
  if (has_microbatch == microbatch_text.empty()) return std::nullopt;
  if (indices_of(*op) == Indices::kNone && !rest.empty()) return std::nullopt;
  if (!may_have_segment(*op) && !segment_text.empty()) return std::nullopt;
  if (is_segment(*op) && segment_text.empty()) return std::nullopt;
  const std::optional<int32_t> microbatch = has_microbatch ? parse_index(microbatch_text) : 0;
  const std::optional<int32_t> chunk = chunk_text.empty() ? 0 : parse_index(chunk_text.substr(1));
  const std::optional<int32_t> segment =
      segment_text.empty() ? kAllSegments : parse_index(segment_text.substr(1));
  if (!microbatch || !chunk || !segment) return std::nullopt;
  return Action{.op = *op, .chunk = *chunk, .microbatch = *microbatch, .segment = *segment};
}

std::optional<Action> try_parse(std::string_view text) {
  const size_t plus = text.find('+');
  std::optional<Action> action = try_parse_alone(text.substr(0, plus));
  if (!action || plus == std::string_view::npos) return action;
  const std::optional<Action> weight = try_parse_alone(text.substr(plus + 1));
  if (!weight || weight->op != Op::kBackwardWeight || !may_have_weight(action->op) ||
      weight->segment != action->segment) {
    return std::nullopt;
  }
  action->weight = {.chunk = weight->chunk, .microbatch = weight->microbatch};
  return action;
}

// As an action of its own.
Action weight_in_hand(const Action& action) {
  return {.op = Op::kBackwardWeight,
          .chunk = action.weight.chunk,
          .microbatch = action.weight.microbatch,
          .segment = action.segment};
}

}  // namespace

OpClass class_of(Op op) { return traits_of(op).op_class; }
Indices indices_of(Op op) { return traits_of(op).indices; }
bool is_compute(Op op) { return class_of(op) == OpClass::kCompute; }
bool is_send(Op op) { return class_of(op) == OpClass::kSend; }
bool is_receive(Op op) { return class_of(op) == OpClass::kReceive; }
bool is_wait_send(Op op) { return class_of(op) == OpClass::kWaitSend; }
bool is_step_end(Op op) { return class_of(op) == OpClass::kStepEnd; }
bool is_segment(Op op) { return class_of(op) == OpClass::kSegment; }
bool is_input_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardInput; }
bool is_weight_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardWeight; }
bool may_have_weight(Op op) { return op == Op::kForward || op == Op::kBackwardInput; }

std::optional<Action> weight_action(const Action& action) {
  if (is_weight_gradient(action.op)) return action;
  if (!action.weight.exists()) return std::nullopt;
  return weight_in_hand(action);
}

std::string_view to_string(Op op) { return traits_of(op).text; }

std::string to_string(const Action& action) {
  std::string text(to_string(action.op));
  if (indices_of(action.op) == Indices::kMicrobatch) text += std::to_string(action.microbatch);
  if (action.chunk != 0) text += "c" + std::to_string(action.chunk);
  if (action.segment != kAllSegments) text += "s" + std::to_string(action.segment);
  if (action.weight.exists()) text += "+" + to_string(weight_in_hand(action));
  return text;
}

std::string to_string(std::span<const Action> actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += to_string(action);
  }
  return text;
}

Action parse_action(std::string_view text) {
  const std::optional<Action> action = try_parse(text);
  require<ConfigError>(
      action.has_value(), "\"", text,
      "\" is not an action: write an op and a microbatch, then cN for a chunk other than the "
      "first, as in F0, B12 or SEND_F3c1, where the op is F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
      "WAIT_SEND_F or WAIT_SEND_B; or an op of the whole step, REDUCE_TIED, WAIT_REDUCE_TIED or UPDATE, "
      "with its chunk as in UPDATEc1, NORM or WAIT_NORM; or an op on a segment, GATHER, WAIT_GATHER, "
      "RELEASE, "
      "REDUCE, WAIT_REDUCE, REDUCE_DP or WAIT_REDUCE_DP, as in GATHERs2 or GATHERc1s2; or an F or I with a W "
      "in hand, as in I3+W2");
  return *action;
}

std::vector<Action> parse_actions(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  std::vector<Action> actions;
  for (size_t begin = text.find_first_not_of(kSpaces); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    actions.push_back(parse_action(text.substr(begin, end - begin)));
    begin = text.find_first_not_of(kSpaces, end);
  }
  return actions;
}

}  // namespace braid::schedule
