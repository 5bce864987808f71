// FThenB: all forwards, then all backwards.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// F0 .. F(m-1), then B0 .. B(m-1) on every rank: backwards in ascending order, so that gradients add up in
/// the order of the microbatches. Bubble (p-1)(F+B+W); peak live activations m. Compute actions only. Throws
/// ConfigError if the shape is not valid or has more than one chunk per rank. Source: Huang et al. 2019,
/// arXiv:1811.06965 (GPipe), with the backwards not reversed.
Schedule f_then_b(const PipelineShape& shape);

}  // namespace braid::schedule
