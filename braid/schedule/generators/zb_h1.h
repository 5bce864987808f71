// ZBH1: 1F1B with weight gradients put off, at the memory of 1F1B's first rank.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// As 1F1B, but rank r makes input gradients, which the rank before waits for, at once, and weight gradients
/// r microbatches behind. Any m >= 1. Bubble (p-1)(F+B) - (min(m,p)-1)W, which is (p-1)(F+B-W) from m = p on,
/// if W is not longer than F. Peak memory on rank r (p-r) M_B + r M_W for m >= p, hence min(p,
/// m) live activations on every rank. Compute actions only. Throws ConfigError if the shape is not valid or
/// has more than one chunk per rank. Source: Qi et al. 2023, arXiv:2401.10241, section 2.1.
Schedule zb_h1(const PipelineShape& shape);

}  // namespace braid::schedule
