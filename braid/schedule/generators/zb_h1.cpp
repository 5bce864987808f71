#include "braid/schedule/generators/zb_h1.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule zb_h1(const PipelineShape& shape) {
  require_one_chunk(shape, "ZBH1", "InterleavedZB");
  return alternating("ZBH1", shape, [&](int32_t rank) {
    // Every rank keeps p microbatches: p - r that wait for I, and r that wait for W.
    return Alternation{.round = shape.microbatches, .warm_up = shape.ranks - 1 - rank, .lag = rank};
  });
}

}  // namespace braid::schedule
