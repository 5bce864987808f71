#include "braid/report/action_style.h"

#include "braid/base/error.h"

namespace braid::report {
namespace {

using schedule::Op;

constexpr Colour kGatherColour = {.red = 0x8e, .green = 0x4f, .blue = 0xb5};
constexpr Colour kReduceColour = {.red = 0xc2, .green = 0x33, .blue = 0x4d};
constexpr Colour kReduceDpColour = {.red = 0x8a, .green = 0x4b, .blue = 0x12};

Colour waiting(const Colour& colour) {
  constexpr double kShare = 0.55;
  return lighter(colour, kShare);
}

}  // namespace

std::optional<Style> style_of(Op op) {
  switch (op) {
    case Op::kForward:
      return Style{{.red = 0x2f, .green = 0x4f, .blue = 0xb0}, "forward"};
    case Op::kBackward:
      return Style{{.red = 0xe6, .green = 0x9f, .blue = 0x00}, "backward (both gradients)"};
    case Op::kBackwardInput:
      return Style{{.red = 0x1f, .green = 0xa3, .blue = 0xb8}, "input gradient"};
    case Op::kBackwardWeight:
      return Style{{.red = 0x5f, .green = 0x9e, .blue = 0x1f}, "weight gradient"};
    case Op::kUpdate:
      return Style{{.red = 0x9a, .green = 0xa1, .blue = 0xaa}, "of the weights"};
    case Op::kGather:
      return Style{kGatherColour, "weights, over sharding"};
    case Op::kReduce:
      return Style{kReduceColour, "gradients, over sharding"};
    case Op::kReduceDp:
      return Style{kReduceDpColour, "gradients, over dp"};
    case Op::kNorm:
      return Style{{.red = 0x6b, .green = 0x72, .blue = 0x00}, "of all ranks"};
    case Op::kReduceTied:
      return Style{{.red = 0x00, .green = 0x6b, .blue = 0x5b}, "gradient of the tied weight"};
    case Op::kWaitGather:
      return Style{waiting(kGatherColour), "waited for"};
    case Op::kWaitReduce:
      return Style{waiting(kReduceColour), "waited for"};
    case Op::kWaitReduceDp:
      return Style{waiting(kReduceDpColour), "waited for"};
    case Op::kSendForward:
    case Op::kRecvForward:
    case Op::kSendBackward:
    case Op::kRecvBackward:
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
    case Op::kWaitReduceTied:
    case Op::kWaitNorm:
    case Op::kRelease:
      return std::nullopt;
  }
  return std::nullopt;
}

Colour shade(const Colour& colour, int32_t chunk, int32_t chunks) {
  constexpr double kLightest = 0.6;
  return lighter(colour, chunks > 1 ? kLightest * chunk / (chunks - 1) : 0.0);
}

std::string part_text(const schedule::Schedule& schedule, const schedule::Action& action) {
  const bool has_chunk =
      schedule.shape.chunks_per_rank > 1 && indices_of(action.op) != schedule::Indices::kNone;
  const std::string chunk = has_chunk ? cat(" chunk ", action.chunk) : "";
  return action.segment == schedule::kAllSegments ? chunk : cat(chunk, " segment ", action.segment);
}

}  // namespace braid::report
