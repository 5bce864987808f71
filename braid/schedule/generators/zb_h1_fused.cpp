#include "braid/schedule/generators/zb_h1_fused.h"

#include <algorithm>

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule zb_h1_fused(const PipelineShape& shape) {
  require_one_chunk(shape, "ZBH1-fused", "InterleavedZB");
  return alternating("ZBH1-fused", shape, [&](int32_t rank) {
    int32_t fused = std::max(shape.microbatches - shape.ranks, 0);
    if (rank == shape.ranks - 1) fused = 0;
    // Nobody waits for the first rank; on a pipeline of one rank it is the last one too.
    if (rank == 0) fused = shape.microbatches;
    return Alternation{
        .round = shape.microbatches, .warm_up = shape.ranks - 1 - rank, .fused = fused, .lag = rank};
  });
}

}  // namespace braid::schedule
