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
  kReduceTied,      // starts exchanging the gradient of a weight that another stage also holds
  kWaitReduceTied,  // the chunk has the sum of both stages' gradients from here on
  kNorm,            // the squared norms of the rank's gradients; starts exchanging them with all ranks
  kWaitNorm,        // the gradient norm is known from here on, and with it the factor of clipping
  kUpdate,          // the optimizer updates the chunk's weights
};
inline constexpr int kOpCount = static_cast<int>(Op::kUpdate) + 1;

enum class OpClass : uint8_t {
  kCompute,   // F, B, I or W of a microbatch
  kSend,      // starts a send
  kReceive,   // posts a receive
  kWaitSend,  // ends a send
  kStepEnd,   // turns the step's gradients into new weights: the last five
};

/// The indices that an op's actions have; the others are 0.
enum class Indices : uint8_t {
  kMicrobatch,  // a chunk and a microbatch
  kChunk,       // a chunk, for the whole step
  kNone,        // one action per rank and step
};

struct Action {
  Op op = Op::kForward;
  int32_t chunk = 0;
  int32_t microbatch = 0;

  friend bool operator==(const Action&, const Action&) = default;
};

OpClass class_of(Op op);
Indices indices_of(Op op);
bool is_compute(Op op);
bool is_send(Op op);
bool is_receive(Op op);
bool is_wait_send(Op op);
bool is_step_end(Op op);
/// Whether it yields the gradient of the chunk's input: B or I.
bool is_input_gradient(Op op);
/// Whether it yields the gradients of the chunk's weights, and so frees what the forward kept: B or W.
bool is_weight_gradient(Op op);

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "REDUCE_TIED",
/// "WAIT_REDUCE_TIED", "NORM", "WAIT_NORM" or "UPDATE".
std::string_view to_string(Op op);

/// Op and microbatch, then the chunk unless it is the first, if the op has them: "F0", "SEND_B3", "W2c1",
/// "UPDATE", "UPDATEc1", "NORM".
std::string to_string(const Action& action);

/// The actions separated by spaces: "F0 F1 B0 B1".
std::string to_string(std::span<const Action> actions);

/// Parses the output of to_string. Throws ConfigError that shows `text` and the expected form.
Action parse_action(std::string_view text);

/// Actions separated by white space. Throws like parse_action.
std::vector<Action> parse_actions(std::string_view text);

}  // namespace braid::schedule
