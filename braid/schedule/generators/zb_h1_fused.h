// ZBH1-fused: ZBH1 that leaves as many backwards fused as it can afford.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Backwards are split only where somebody waits for the input gradient alone: all on the last rank, the last
/// min(p, m) on the ranks between, none on the first. Forwards, and the weight gradients of split backwards,
/// stand where ZBH1 has them. Any m >= 1; for m <= p it takes as long as ZBH1. Bubble (p-1)(B+max(F,W)) - W
/// for m > p >= 2. Peak memory as ZBH1's. Compute actions only. Throws ConfigError if the shape is not valid
/// or has more than one chunk per rank.
///
/// Source: the ZBH1 mode of PaddlePaddle, from which it has to differ. There the first r microbatches of rank
/// r are split, the rest are fused on every rank, and the W of the first come last of all, so weight
/// gradients do not add up in ascending order. Its bubble is (p-1)B + max((p-2)F, (p-1)(F-W)): less by
/// (p-2)(W-F) if W >= F, by min(F-W, (p-2)W) if not; the same for p = 2 and for F = W.
///
/// Why no ascending order reaches it that fuses some B(j), j < m-p, on all ranks and keeps p activations on
/// rank 0. The last rank ends B(j) no earlier than (p-1)F + (j+1)(F+B+W), as W(0) .. W(j-1) are done too, and
/// rank 0 (p-1)(B+W) later. Until then rank 0 has computed no more than j+p forwards and j+1 backwards, so it
/// has idled for (p-1)(B+W). Rank 0 cannot start F(m-1) before its B(m-p-1) is done; then (p-1)(F+B) pass
/// until the gradient of m-1 is back, with only the backwards of p-1 other microbatches to fill them: it
/// idles for another (p-1)(F-W). So the bubble is at least (p-1)(B+max(F,W)). That the last rank does not
/// fuse takes W off that.
Schedule zb_h1_fused(const PipelineShape& shape);

}  // namespace braid::schedule
