#include "braid/schedule/generators/eager_one_f_one_b.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule eager_one_f_one_b(const PipelineShape& shape) {
  require_one_chunk(shape, "Eager1F1B", "VPP");
  return alternating("Eager1F1B", shape, [&](int32_t rank) {
    return Alternation{
        .round = shape.microbatches, .warm_up = 2 * (shape.ranks - 1 - rank), .fused = shape.microbatches};
  });
}

}  // namespace braid::schedule
