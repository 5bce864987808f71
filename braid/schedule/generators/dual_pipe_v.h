// DualPipeV: microbatches meet on every rank, so that one's forward can run beside another's backward.
#pragma once

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// Two chunks per rank, stages in a V: microbatches enter on rank 0 and their losses are made there. A
/// forward and a backward that DualPipeV runs as one overlapped pair come as F, then B. m >= 2p. Bubble
/// (p-1)F for F = B = W, times of one stage, whatever m; half of the paper's, whose pairs hand on the
/// forward's result only when the backward is done too. Peak live activations 2p+1 (chunk, microbatch) pairs
/// on every rank. Compute actions only. Throws ConfigError if the shape is not valid, has not 2 chunks per
/// rank or fewer than 2p microbatches. Source: the "cut-in-half" form of DeepSeek-AI 2024, arXiv:2412.19437,
/// section 3.2.1; the eight steps are those of the DualPipe repository.
Schedule dual_pipe_v(const PipelineShape& shape);

}  // namespace braid::schedule
