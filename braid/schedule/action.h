// One thing that one rank does: the smallest part of a schedule.
#pragma once

#include <cstdint>
#include <optional>
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
  kGather,          // starts collecting the values of a segment from the ranks that share it
  kWaitGather,      // the segment's values are complete from here on
  kRelease,         // the segment's values are dropped, but for this rank's part
  kReduce,          // starts adding up the segment's gradients over the sharding axis
  kWaitReduce,      // the rank has its part of the sum from here on
  kReduceDp,        // starts adding up what the rank has of the segment's gradients over the dp axis
  kWaitReduceDp,    // the rank has its part of the sum over all data ranks from here on
};
inline constexpr int kOpCount = static_cast<int>(Op::kWaitReduceDp) + 1;

/// Of an action on all segments of its chunk.
inline constexpr int32_t kAllSegments = -1;

enum class OpClass : uint8_t {
  kCompute,   // F, B, I or W of a microbatch
  kSend,      // starts a send
  kReceive,   // posts a receive
  kWaitSend,  // ends a send
  kStepEnd,   // turns the step's gradients into new weights: from REDUCE_TIED to UPDATE
  kSegment,   // moves values or gradients of a segment among the data ranks: the last seven
};

/// The indices that an op's actions have; the others are 0.
enum class Indices : uint8_t {
  kMicrobatch,  // a chunk and a microbatch; if the op computes, perhaps one segment
  kChunk,       // a chunk, or one segment of it, for the whole step
  kSegment,     // a chunk and a segment
  kNone,        // one action per rank and step
};

/// A W whose microbatch has had its I: the rank may run it whenever it would otherwise wait.
struct WeightInHand {
  int32_t chunk = 0;
  int32_t microbatch = -1;  // -1: none

  bool exists() const { return microbatch >= 0; }

  friend bool operator==(const WeightInHand&, const WeightInHand&) = default;
};

struct Action {
  Op op = Op::kForward;
  int32_t chunk = 0;
  int32_t microbatch = 0;
  int32_t segment = kAllSegments;  // a group of the chunk's layers; see DataAxes
  // Of F and I: runs layer by layer while the layers of F or I wait for the tensor-parallel (mp) group. If
  // the action works on one segment, so does this W, of the same chunk.
  WeightInHand weight{};

  friend bool operator==(const Action&, const Action&) = default;
};

OpClass class_of(Op op);
Indices indices_of(Op op);
bool is_compute(Op op);
bool is_send(Op op);
bool is_receive(Op op);
bool is_wait_send(Op op);
bool is_step_end(Op op);
bool is_segment(Op op);
/// Whether it yields the gradient of the chunk's input: B or I.
bool is_input_gradient(Op op);
/// Whether it yields the gradients of the chunk's weights, and so frees what the forward kept: B or W.
bool is_weight_gradient(Op op);

/// Whether it may have a W in hand: F or I.
bool may_have_weight(Op op);

/// The action of which `action` makes the weight gradients: itself if it is a B or W, the W that it has in
/// hand as an action of its own, or nothing.
std::optional<Action> weight_action(const Action& action);

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "REDUCE_TIED",
/// "WAIT_REDUCE_TIED", "NORM", "WAIT_NORM", "UPDATE", "GATHER", "WAIT_GATHER", "RELEASE", "REDUCE",
/// "WAIT_REDUCE", "REDUCE_DP" or "WAIT_REDUCE_DP".
std::string_view to_string(Op op);

/// Op and microbatch, then the chunk unless it is the first, then the segment unless it is all of them, if
/// the op has them: "F0", "SEND_B3", "W2c1", "UPDATE", "UPDATEc1", "NORM", "F0s2", "GATHERc1s0". A W in hand
/// follows as an action of its own: "I3+W2", "F4c1+W2".
std::string to_string(const Action& action);

/// The actions separated by spaces: "F0 F1 B0 B1".
std::string to_string(std::span<const Action> actions);

/// Parses the output of to_string. Throws ConfigError that shows `text` and the expected form.
Action parse_action(std::string_view text);

/// Actions separated by white space. Throws like parse_action.
std::vector<Action> parse_actions(std::string_view text);

}  // namespace braid::schedule
