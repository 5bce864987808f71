#include "braid/schedule/generators/v_shape.h"

#include <utility>

#include "braid/base/error.h"

namespace braid::schedule {

Schedule v_schedule(std::string name, const PipelineShape& shape) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 2, name, " runs with 2 chunks per rank, got ",
                       shape.chunks_per_rank);
  Schedule schedule = {.name = std::move(name), .shape = shape, .placement = Placement::kV};
  schedule.ranks.reserve(static_cast<size_t>(shape.ranks));
  return schedule;
}

}  // namespace braid::schedule
