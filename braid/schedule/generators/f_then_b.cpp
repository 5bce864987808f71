#include "braid/schedule/generators/f_then_b.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule f_then_b(const PipelineShape& shape) {
  return alternating("FThenB", shape, [&](int32_t) {
    const int32_t all = shape.chunks_per_rank * shape.microbatches;
    return Alternation{.round = shape.microbatches, .warm_up = all, .fused = all};
  });
}

}  // namespace braid::schedule
