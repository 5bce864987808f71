// The degrees of the mesh from the options and the number of ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "braid/config/options.h"
#include "braid/mesh/mesh.h"

namespace braid::config {

/// The ZeRO stage in --sharding, 1 where it names none.
int32_t sharding_stage(const PretrainOptions& options);

/// Whether --sharding says offload.
bool offloads_optimizer(const PretrainOptions& options);

/// The degrees of all axes. tensor_parallel_degree and pipeline_parallel_degree of -1 are 1.
/// sharding_parallel_degree is 1 without --sharding; with it, -1 is all ranks that remain, and
/// data_parallel_degree of -1 then is 1. data_parallel_degree of -1 is otherwise what remains. Without
/// `world_size`, which only a dry run does, degrees to be inferred are 1.
/// Throws ConfigError, naming all four degrees, unless their product is `world_size`.
mesh::MeshShape mesh_of(const PretrainOptions& options, std::optional<int64_t> world_size);

}  // namespace braid::config
