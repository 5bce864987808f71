// The ranks of a run on their nodes, one small picture for each axis of the mesh: who talks to whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "braid/mesh/mesh.h"

namespace braid::report {

/// What a drawing says of an axis: lines below its heading.
struct AxisNotes {
  mesh::Axis axis = mesh::Axis::kMp;
  std::vector<std::string> lines;
};

struct MeshPicture {
  std::string title;
  mesh::MeshShape mesh;
  int32_t ranks_per_node = 8;
  std::vector<AxisNotes> notes{};  ///< of axes with more than one rank; the others' are not drawn
  std::string footer{};
};

/// How the groups of an axis lie on the nodes.
struct AxisSpread {
  int64_t groups = 0;
  int64_t crossing = 0;         ///< groups with ranks on more than one node
  int32_t nodes_per_group = 1;  ///< the most of any group

  friend bool operator==(const AxisSpread&, const AxisSpread&) = default;
};

/// Ranks are on nodes in order, `ranks_per_node` on each. Not checked: both are valid.
AxisSpread spread_of(const mesh::MeshShape& shape, mesh::Axis axis, int32_t ranks_per_node);

/// An SVG document like draw_svg's. For each axis with more than one rank a panel, from the innermost to the
/// outermost: nodes as boxes, ranks in them by number, the lighter the farther along the axis, and a line
/// through the members of each group; a tooltip on each rank has its coordinates and its group. The same
/// arguments give the same text. Throws ConfigError if the mesh is not valid, ranks_per_node is below 1, or
/// there are more than 4096 ranks.
std::string draw_mesh(const MeshPicture& picture);

}  // namespace braid::report
