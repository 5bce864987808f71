// Wrong on purpose: kUpdate is missing. The test incomplete_switch_is_found fails unless the compiler rejects
// it.
#include "braid/schedule/action.h"

bool waits(braid::schedule::Op op) {
  using braid::schedule::Op;
  switch (op) {
    case Op::kForward:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
    case Op::kSendForward:
    case Op::kRecvForward:
    case Op::kSendBackward:
    case Op::kRecvBackward:
    case Op::kReduceTied:
    case Op::kNorm:
      return false;
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
    case Op::kWaitReduceTied:
    case Op::kWaitNorm:
      return true;
  }
  return false;
}
