// Eager1F1B: 1F1B with more forwards in hand, so that messages have time to arrive.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Rank r runs min(2(p-1-r), m) forwards, then one forward and one backward in turn, then the backwards left
/// over. Any m >= 1. Bubble (p-1)(F+B+W) as 1F1B's, if messages take no time; if they do, the second warm-up
/// forward per hop hides a message and its answer. Peak live activations on rank r min(2(p-r)-1, m). Compute
/// actions only. Throws ConfigError if the shape is not valid or has more than one chunk per rank.
/// Source: the Eager-1F1B mode of PaddlePaddle; Zhuang et al. 2022, arXiv:2211.05322 (eager-1F1B).
Schedule eager_one_f_one_b(const PipelineShape& shape);

}  // namespace braid::schedule
