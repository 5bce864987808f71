#include "braid/schedule/generators/interleaved_zb.h"

#include "braid/schedule/generators/alternation.h"

namespace braid::schedule {

Schedule interleaved_zb(const PipelineShape& shape) {
  const int32_t round = microbatches_per_round(shape, "InterleavedZB");
  return alternating("InterleavedZB", shape, [&](int32_t rank) {
    return Alternation{
        .round = round, .warm_up = shape.ranks - 1 - rank + (shape.chunks_per_rank - 1) * round, .lag = rank};
  });
}

}  // namespace braid::schedule
