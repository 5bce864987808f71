#include "braid/schedule/action.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {
namespace {

// In the order of Op.
constexpr std::array<std::string_view, 11> kOpTexts = {
    "F",      "B",      "I",           "W",           "SEND_F",         "RECV_F",
    "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "OPTIMIZER_STEP",
};

std::optional<Op> parse_op(std::string_view text) {
  for (size_t i = 0; i < kOpTexts.size(); ++i) {
    if (kOpTexts[i] == text) return static_cast<Op>(i);
  }
  return std::nullopt;
}

std::optional<int32_t> parse_index(std::string_view text) {
  const std::optional<int64_t> value = parse_int(text);
  if (!value || *value < 0 || *value > std::numeric_limits<int32_t>::max()) return std::nullopt;
  return static_cast<int32_t>(*value);
}

std::optional<Action> try_parse(std::string_view text) {
  const size_t digit = std::min(text.find_first_of("0123456789"), text.size());
  const std::optional<Op> op = parse_op(text.substr(0, digit));
  const std::string_view numbers = text.substr(digit);
  if (!op) return std::nullopt;
  if (*op == Op::kOptimizerStep) {
    return numbers.empty() ? std::optional(Action{.op = *op}) : std::nullopt;
  }
  const size_t mark = numbers.find('c');
  const std::optional<int32_t> microbatch = parse_index(numbers.substr(0, mark));
  const std::optional<int32_t> chunk =
      mark == std::string_view::npos ? std::optional(0) : parse_index(numbers.substr(mark + 1));
  if (!microbatch || !chunk) return std::nullopt;
  return Action{.op = *op, .chunk = *chunk, .microbatch = *microbatch};
}

}  // namespace

bool is_compute(Op op) { return op <= Op::kBackwardWeight; }
bool is_input_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardInput; }
bool is_weight_gradient(Op op) { return op == Op::kBackward || op == Op::kBackwardWeight; }
bool is_send(Op op) { return op == Op::kSendForward || op == Op::kSendBackward; }
bool is_receive(Op op) { return op == Op::kRecvForward || op == Op::kRecvBackward; }
bool is_wait(Op op) { return op == Op::kWaitSendForward || op == Op::kWaitSendBackward; }

std::string_view to_string(Op op) {
  const auto index = static_cast<size_t>(op);
  return index < kOpTexts.size() ? kOpTexts[index] : "UNKNOWN_OP";
}

std::string to_string(const Action& action) {
  std::string text(to_string(action.op));
  if (action.op == Op::kOptimizerStep) return text;
  text += std::to_string(action.microbatch);
  if (action.chunk != 0) text += "c" + std::to_string(action.chunk);
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
      "first, as in F0, B12 or SEND_F3c1; the ops are F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, "
      "WAIT_SEND_F, WAIT_SEND_B and OPTIMIZER_STEP");
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
