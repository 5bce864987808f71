#include "braid/schedule/generators/zb_h2.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule zb_h2(const PipelineShape& shape) {
  require_one_chunk(shape, "ZBH2", "InterleavedZB");
  return alternating("ZBH2", shape, [&](int32_t rank) {
    return Alternation{.round = shape.microbatches, .warm_up = 2 * (shape.ranks - 1 - rank), .lag = 2 * rank};
  });
}

}  // namespace braid::schedule
