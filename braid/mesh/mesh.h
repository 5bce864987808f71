// Rank <-> (mp, sharding, pp, dp) coordinates, and the members of each group.
// Ranks are numbered with mp innermost, then sharding, then pp, and dp outermost, so that the axis with the
// most communication (mp) connects ranks that are close together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid::mesh {

enum class Axis { kMp, kSharding, kPp, kDp };

/// From innermost to outermost.
inline constexpr std::array kAxes = {Axis::kMp, Axis::kSharding, Axis::kPp, Axis::kDp};

/// "mp", "sharding", "pp" or "dp".
std::string_view to_string(Axis axis);

/// The degree of each axis.
struct MeshShape {
  int32_t mp = 1;
  int32_t sharding = 1;
  int32_t pp = 1;
  int32_t dp = 1;

  /// The number of ranks, mp * sharding * pp * dp.
  int64_t world_size() const;

  friend bool operator==(const MeshShape&, const MeshShape&) = default;
};

/// A rank's place on each axis, each in [0, degree).
struct Coordinates {
  int32_t mp = 0;
  int32_t sharding = 0;
  int32_t pp = 0;
  int32_t dp = 0;

  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// The degree of `axis`.
int32_t degree(const MeshShape& shape, Axis axis);

/// The coordinate on `axis`.
int32_t coordinate(const Coordinates& coordinates, Axis axis);

/// Throws ConfigError unless every degree is at least 1 and the world size fits into 31 bits.
void validate(const MeshShape& shape);

/// Throws ConfigError also unless the product of the degrees is `world_size`; the message lists all four.
void validate(const MeshShape& shape, int64_t world_size);

/// The coordinates of `rank`. Throws ConfigError if it is not in [0, world size).
Coordinates coordinates_of(const MeshShape& shape, int32_t rank);

/// The rank at `coordinates`. Throws ConfigError if one of them is not in [0, degree).
int32_t rank_of(const MeshShape& shape, const Coordinates& coordinates);

/// The ranks that differ from `rank` only on `axis`, including itself, in the order of their coordinate on
/// that axis.
std::vector<int32_t> group_of(const MeshShape& shape, int32_t rank, Axis axis);

/// "mp 2 x sharding 1 x pp 4 x dp 1".
std::string to_string(const MeshShape& shape);

/// "mp 0, sharding 0, pp 3, dp 0".
std::string to_string(const Coordinates& coordinates);

}  // namespace braid::mesh
