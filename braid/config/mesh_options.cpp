#include "braid/config/mesh_options.h"

#include <algorithm>
#include <limits>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::config {
namespace {

constexpr int64_t kMostRanks = std::numeric_limits<int32_t>::max();

// A degree, or nothing where it is to be inferred.
std::optional<int64_t> given(int64_t degree) { return degree == -1 ? std::nullopt : std::optional(degree); }

std::string degree_text(const char* name, std::optional<int64_t> degree) {
  return cat(name, " ", degree ? std::to_string(*degree) : "-1 (inferred)");
}

}  // namespace

int32_t sharding_stage(const PretrainOptions& options) {
  constexpr std::string_view kStage = "stage";
  if (!options.sharding.starts_with(kStage)) return 1;
  return options.sharding.at(kStage.size()) - '0';
}

bool offloads_optimizer(const PretrainOptions& options) { return options.sharding.ends_with("offload"); }

mesh::MeshShape mesh_of(const PretrainOptions& options, std::optional<int64_t> world_size) {
  const int64_t mp = given(options.tensor_parallel_degree).value_or(1);
  const int64_t pp = given(options.pipeline_parallel_degree).value_or(1);
  std::optional<int64_t> sharding = options.sharding.empty() ? 1 : given(options.sharding_parallel_degree);
  std::optional<int64_t> dp = given(options.data_parallel_degree);
  const std::string degrees =
      cat("tensor_parallel_degree ", mp, " x ", degree_text("sharding_parallel_degree", sharding),
          " x pipeline_parallel_degree ", pp, " x ", degree_text("data_parallel_degree", dp));
  int64_t product = 1;
  for (const int64_t degree : {mp, sharding.value_or(1), pp, dp.value_or(1)}) {
    require<ConfigError>(degree <= kMostRanks && product * degree <= kMostRanks, degrees,
                         " is more than the maximum of ", kMostRanks, " ranks: lower a degree");
    product *= degree;
  }
  if (world_size) {
    if (sharding && dp) {
      require<ConfigError>(product == *world_size, degrees, " = ", product,
                           " must be the number of ranks, got ", *world_size, ": start ",
                           counted(product, "rank"), " or change a degree");
    }
    require<ConfigError>(*world_size % product == 0, degrees, " = ", product,
                         " times what is inferred must be the number of ranks, got ", *world_size,
                         ": start a multiple of ", counted(product, "rank"), " or change a degree");
    const int64_t rest = *world_size / product;
    if (!sharding) {
      sharding = rest;
    } else if (!dp) {
      dp = rest;
    }
  }
  return {.mp = static_cast<int32_t>(mp),
          .sharding = static_cast<int32_t>(sharding.value_or(1)),
          .pp = static_cast<int32_t>(pp),
          .dp = static_cast<int32_t>(dp.value_or(1))};
}

}  // namespace braid::config
