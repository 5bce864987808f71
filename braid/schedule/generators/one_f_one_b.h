// 1F1B: warm up, then alternate one forward with one backward, then drain.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Rank r runs min(p-1-r, m) forwards, then one forward and one backward in turn, then the backwards left
/// over. Any m >= 1, m < p included. Bubble (p-1)(F+B+W); peak live activations on rank r min(p-r, m).
/// Compute actions only. Throws ConfigError if the shape is not valid or has more than one chunk per rank.
/// Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1.
Schedule one_f_one_b(const PipelineShape& shape);

}  // namespace braid::schedule
