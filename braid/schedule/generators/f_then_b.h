// FThenB: all forwards, then all backwards.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// F0 .. F(m-1) of every chunk from the first to the last, then B0 .. B(m-1) of every chunk from the last to
/// the first: backwards in ascending order, so that gradients add up in the order of the microbatches. Looped
/// stages, v >= 1 chunks per rank. With F, B, W the times of one stage: bubble
/// (p-1 + (v-1) max(p-m, 0)) (F+B+W); peak live activations vm. Compute actions only. Throws ConfigError if
/// the shape is not valid. Source: Huang et al. 2019, arXiv:1811.06965 (GPipe), with the backwards not
/// reversed.
Schedule f_then_b(const PipelineShape& shape);

}  // namespace braid::schedule
