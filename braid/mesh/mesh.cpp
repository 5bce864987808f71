#include "braid/mesh/mesh.h"

#include <limits>

#include "braid/base/error.h"

namespace braid::mesh {
namespace {

// The only place that says which member belongs to which axis.
template <typename PerAxis>
auto& member(PerAxis& values, Axis axis) {
  switch (axis) {
    case Axis::kMp:
      return values.mp;
    case Axis::kSharding:
      return values.sharding;
    case Axis::kPp:
      return values.pp;
    case Axis::kDp:
      return values.dp;
  }
  throw InternalError("a mesh has no such axis");
}

// The distance in rank numbers between neighbours on `axis`.
int32_t stride(const MeshShape& shape, Axis axis) {
  int32_t result = 1;
  for (const Axis inner : kAxes) {
    if (inner == axis) break;
    result *= degree(shape, inner);
  }
  return result;
}

}  // namespace

std::string_view to_string(Axis axis) {
  switch (axis) {
    case Axis::kMp:
      return "mp";
    case Axis::kSharding:
      return "sharding";
    case Axis::kPp:
      return "pp";
    case Axis::kDp:
      return "dp";
  }
  throw InternalError("a mesh has no such axis");
}

int32_t degree(const MeshShape& shape, Axis axis) { return member(shape, axis); }

int32_t coordinate(const Coordinates& coordinates, Axis axis) { return member(coordinates, axis); }

int64_t MeshShape::world_size() const {
  validate(*this);
  return int64_t{mp} * sharding * pp * dp;
}

void validate(const MeshShape& shape) {
  int64_t product = 1;
  for (const Axis axis : kAxes) {
    require<ConfigError>(degree(shape, axis) >= 1, "the ", to_string(axis), " degree must be >= 1, got ",
                         degree(shape, axis));
    product *= degree(shape, axis);
    require<ConfigError>(product <= std::numeric_limits<int32_t>::max(), to_string(shape),
                         " has more than the maximum of 2147483647 ranks: lower a degree");
  }
}

void validate(const MeshShape& shape, int64_t world_size) {
  require<ConfigError>(shape.world_size() == world_size, to_string(shape), " needs ", shape.world_size(),
                       " ranks, but ", world_size, world_size == 1 ? " runs" : " run",
                       ": change a degree or the number of ranks");
}

Coordinates coordinates_of(const MeshShape& shape, int32_t rank) {
  const int64_t world_size = shape.world_size();
  require<ConfigError>(0 <= rank && rank < world_size, "rank must be in [0, ", world_size, ") for ",
                       to_string(shape), ", got ", rank);
  Coordinates result;
  for (const Axis axis : kAxes) {
    member(result, axis) = rank % degree(shape, axis);
    rank /= degree(shape, axis);
  }
  return result;
}

int32_t rank_of(const MeshShape& shape, const Coordinates& coordinates) {
  validate(shape);
  int32_t rank = 0;
  for (const Axis axis : kAxes) {
    const int32_t place = coordinate(coordinates, axis);
    require<ConfigError>(0 <= place && place < degree(shape, axis), "the ", to_string(axis),
                         " coordinate must be in [0, ", degree(shape, axis), "), got ", place);
    rank += place * stride(shape, axis);
  }
  return rank;
}

std::vector<int32_t> group_of(const MeshShape& shape, int32_t rank, Axis axis) {
  const int32_t step = stride(shape, axis);
  const int32_t first = rank - coordinate(coordinates_of(shape, rank), axis) * step;
  std::vector<int32_t> members;
  members.reserve(static_cast<size_t>(degree(shape, axis)));
  for (int32_t i = 0; i < degree(shape, axis); ++i) members.push_back(first + i * step);
  return members;
}

std::string to_string(const MeshShape& shape) {
  return cat("mp ", shape.mp, " x sharding ", shape.sharding, " x pp ", shape.pp, " x dp ", shape.dp);
}

std::string to_string(const Coordinates& coordinates) {
  return cat("mp ", coordinates.mp, ", sharding ", coordinates.sharding, ", pp ", coordinates.pp, ", dp ",
             coordinates.dp);
}

}  // namespace braid::mesh
