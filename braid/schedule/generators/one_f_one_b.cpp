#include "braid/schedule/generators/one_f_one_b.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule one_f_one_b(const PipelineShape& shape) {
  require_one_chunk(shape, "1F1B", "VPP");
  return alternating("1F1B", shape, [&](int32_t rank) {
    // Later ranks start later, so they need fewer forwards in hand.
    return Alternation{
        .round = shape.microbatches, .warm_up = shape.ranks - 1 - rank, .fused = shape.microbatches};
  });
}

}  // namespace braid::schedule
