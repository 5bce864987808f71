#include "braid/schedule/generators/vpp.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule vpp(const PipelineShape& shape) {
  const int32_t round = microbatches_per_round(shape, "VPP");
  return alternating("VPP", shape, [&](int32_t rank) {
    // The first backward is the last chunk's. Each hop to the last rank costs a forward there and one back.
    return Alternation{.round = round,
                       .warm_up = 2 * (shape.ranks - 1 - rank) + (shape.chunks_per_rank - 1) * round,
                       .fused = shape.chunks_per_rank * shape.microbatches};
  });
}

}  // namespace braid::schedule
