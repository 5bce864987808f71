// One thing that one rank does: the smallest part of a schedule.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace braid::schedule {

enum class Op : uint8_t {
  kForward,
  kBackward,        // input and weight gradients, fused
  kBackwardInput,   // the gradient of the chunk's input only
  kBackwardWeight,  // the gradients of the chunk's weights, after its kBackwardInput
  kSendForward,     // starts sending the chunk's output
  kRecvForward,     // posts the receive of the chunk's input
  kSendBackward,    // starts sending the gradient of the chunk's input
  kRecvBackward,    // posts the receive of the gradient of the chunk's output
  kWaitSendForward,
  kWaitSendBackward,
  kOptimizerStep,
};

/// `chunk` is the local chunk of the rank that holds the list, also in sends and receives. Sends and receives
/// only start: the compute action that needs a received tensor waits for it, and a kWaitSend... ends its
/// send.
struct Action {
  Op op = Op::kForward;
  int32_t chunk = 0;
  int32_t microbatch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

/// Whether it computes on a microbatch: F, B, I or W.
bool is_compute(Op op);
/// Whether it yields the gradient of the chunk's input: B or I.
bool is_input_gradient(Op op);
/// Whether it yields the gradients of the chunk's weights, and so frees what the forward kept: B or W.
bool is_weight_gradient(Op op);
bool is_send(Op op);
bool is_receive(Op op);
bool is_wait(Op op);

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B" or
/// "OPTIMIZER_STEP".
std::string_view to_string(Op op);

/// Op and microbatch, then the chunk unless it is the first: "F0", "SEND_B3", "W2c1"; "OPTIMIZER_STEP" alone.
std::string to_string(const Action& action);

/// The actions with a space between: "F0 F1 B0 B1".
std::string to_string(std::span<const Action> actions);

/// What to_string printed. Throws ConfigError that shows `text` and the form it should have.
Action parse_action(std::string_view text);

/// Actions with white space between. Throws as parse_action does.
std::vector<Action> parse_actions(std::string_view text);

}  // namespace braid::schedule
