// ZBH2: ZBH1 with twice the forwards in hand, for almost twice the memory and hardly any bubble.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// As ZBH1, with min(2(p-1-r), m) forwards first and weight gradients 2r microbatches behind. Any m >= 1.
/// Bubble (p-1)(F+B) - (min(m,2p-1)-1)W, which is (p-1)(F+B-2W) from m = 2p-1 on, if W is not longer than
/// F, nor 2W than F+B. Peak memory on rank r (2(p-r)-1) M_B + 2r M_W for m >= 2p-1, hence min(2p-1, m) live
/// activations on every rank. The ranks end one after another as they began: the bubble is each rank's own,
/// and needs an optimizer step that does not make ranks wait for one another. Compute actions only. Throws
/// ConfigError if the shape is not valid or has more than one chunk per rank. Source: Qi et al. 2023,
/// arXiv:2401.10241, section 2.2.
Schedule zb_h2(const PipelineShape& shape);

}  // namespace braid::schedule
