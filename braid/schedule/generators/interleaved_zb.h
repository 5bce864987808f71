// InterleavedZB: ZB-H1 over several chunks per rank.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Looped stages, v >= 1 chunks per rank; rounds of g microbatches as in VPP. Rank r runs
/// min(p-1-r + (v-1)g, vm) forwards, then one forward and one input gradient in turn, with its weight
/// gradients r behind: nobody waits for these, so half of VPP's warm-up is enough. With F, B, W the times of
/// one stage and m >= p: bubble (p-1)(F+B-W), if W is not longer than F. Peak live activations
/// min(p + (v-1)g, vm) on every rank, where W counts as long as its activations are kept: vp where p divides
/// m. Compute actions only. Throws ConfigError if the shape is not valid or its microbatches do not fall into
/// max(1, m / p) equal rounds. Source: Qi et al. 2023, arXiv:2401.10241, section 2, on the stages of
/// arXiv:2104.04473; the order is that of PyTorch's ScheduleInterleavedZeroBubble.
Schedule interleaved_zb(const PipelineShape& shape);

}  // namespace braid::schedule
