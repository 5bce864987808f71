// VPP, or interleaved 1F1B: 1F1B over several chunks per rank, for a shorter bubble.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Looped stages, v >= 1 chunks per rank. Microbatches pass the chunks in rounds of g (p, where p divides m).
/// Rank r runs min(2(p-1-r) + (v-1)g, vm) forwards, then one forward and one backward in turn, then the
/// backwards left over. With F, B, W the times of one stage: bubble (p-1 + (v-1) max(p-m, 0)) (F+B+W), where
/// 1F1B with as many layers per rank has v(p-1)(F+B+W); peak live activations on rank r
/// min(2(p-r)-1 + (v-1)g, vm). Compute actions only.
/// Throws ConfigError if the shape is not valid or its microbatches do not fall into max(1, m / p) equal
/// rounds. Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2.
Schedule vpp(const PipelineShape& shape);

}  // namespace braid::schedule
