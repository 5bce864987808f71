#include "braid/report/mesh_drawing.h"

#include <algorithm>
#include <set>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/action_style.h"
#include "braid/report/plot.h"

namespace braid::report {
namespace {

using mesh::MeshShape;

// In pixels.
constexpr double kCell = 24;
constexpr double kCellGap = 8;
constexpr double kCellPitch = kCell + kCellGap;
constexpr double kNodePadding = 10;
constexpr double kNodeTitle = 16;
constexpr double kNodeGap = 22;
constexpr double kHeadingFont = 14;
constexpr double kNoteFont = 11;
constexpr double kNotePitch = 16;
constexpr double kPanelGap = 30;
constexpr double kWidestRow = 1180;  // then nodes continue in the next row

Colour colour_of(mesh::Axis axis) {
  switch (axis) {
    case mesh::Axis::kMp:
      return {.red = 0x1f, .green = 0x8a, .blue = 0x9c};
    case mesh::Axis::kSharding:
      return {.red = 0x8e, .green = 0x4f, .blue = 0xb5};
    case mesh::Axis::kPp:
      return {.red = 0x2f, .green = 0x4f, .blue = 0xb0};
    case mesh::Axis::kDp:
      return {.red = 0x8a, .green = 0x4b, .blue = 0x12};
  }
  throw InternalError("a mesh has no such axis");
}

std::string_view long_name(mesh::Axis axis) {
  switch (axis) {
    case mesh::Axis::kMp:
      return "mp: the ranks of a group share every layer";
    case mesh::Axis::kSharding:
      return "sharding: the ranks of a group share optimizer states, and train on samples of their own";
    case mesh::Axis::kPp:
      return "pp: each rank of a group holds other layers, and sends activations to the next";
    case mesh::Axis::kDp:
      return "dp: the ranks of a group are replicas that train on samples of their own";
  }
  throw InternalError("a mesh has no such axis");
}

// Where ranks are in a panel.
class NodeGrid {
 public:
  explicit NodeGrid(const MeshPicture& picture) : ranks_(static_cast<int32_t>(picture.mesh.world_size())) {
    per_node_ = std::min(picture.ranks_per_node, ranks_);
    // Neighbours on mp are side by side where that fills rows of equal length, so that a row is one group.
    const int32_t mp = picture.mesh.mp;
    constexpr int32_t kFewColumns = 4;
    constexpr int32_t kManyColumns = 16;
    const bool is_row = mp > 1 && mp <= kManyColumns && per_node_ % mp == 0;
    columns_ = is_row ? mp : std::min(kFewColumns, per_node_);
    rows_ = (per_node_ + columns_ - 1) / columns_;
    nodes_ = (ranks_ + per_node_ - 1) / per_node_;
    const auto fitting = static_cast<int32_t>((kWidestRow + kNodeGap) / (node_width() + kNodeGap));
    nodes_per_row_ = std::clamp(fitting, 1, nodes_);
  }

  int32_t ranks() const { return ranks_; }
  int32_t nodes() const { return nodes_; }
  int32_t columns() const { return columns_; }
  int32_t node_of(int32_t rank) const { return rank / per_node_; }
  double node_width() const { return 2 * kNodePadding + columns_ * kCellPitch - kCellGap; }
  double node_height() const { return kNodeTitle + kNodePadding + rows_ * kCellPitch - kCellGap; }
  double width() const { return nodes_per_row_ * (node_width() + kNodeGap) - kNodeGap; }
  double height() const {
    const int32_t rows = (nodes_ + nodes_per_row_ - 1) / nodes_per_row_;
    return rows * (node_height() + kNodeGap) - kNodeGap;
  }

  Box node(int32_t node, double top) const {
    const int32_t row = node / nodes_per_row_, column = node % nodes_per_row_;
    return {.x = kMargin + column * (node_width() + kNodeGap),
            .y = top + row * (node_height() + kNodeGap),
            .width = node_width(),
            .height = node_height()};
  }

  Box cell(int32_t rank, double top) const {
    const Box box = node(node_of(rank), top);
    const int32_t row = rank % per_node_ / columns_, column = rank % per_node_ % columns_;
    return {.x = box.x + kNodePadding + column * kCellPitch,
            .y = box.y + kNodeTitle + row * kCellPitch,
            .width = kCell,
            .height = kCell};
  }

 private:
  int32_t ranks_;
  int32_t per_node_ = 1;
  int32_t columns_ = 1;
  int32_t rows_ = 1;
  int32_t nodes_ = 1;
  int32_t nodes_per_row_ = 1;
};

double middle_x(const Box& box) { return box.x + box.width / 2; }
double middle_y(const Box& box) { return box.y + box.height / 2; }

// A line through the ranks of a group, which the ranks cover. Lines of different groups run beside one
// another: each is moved across its direction by its place among the ranks that it passes behind.
std::string draw_group(const NodeGrid& grid, const std::vector<int32_t>& group, double top) {
  std::string lines;
  for (size_t i = 1; i < group.size(); ++i) {
    const Box from = grid.cell(group[i - 1], top);
    const Box to = grid.cell(group[i], top);
    const int32_t stride = group[i] - group[i - 1];
    const bool is_level = from.y == to.y;
    const int32_t beside = is_level ? std::min(stride, grid.columns()) : std::max(1, stride / grid.columns());
    const int32_t place = is_level ? group.front() % beside : group.front() / grid.columns() % beside;
    const double step = std::min(5.0, (kCell - 4) / beside);
    const double shift = (place - (beside - 1) / 2.0) * step;
    lines += line_element(middle_x(from) + (is_level ? 0 : shift), middle_y(from) + (is_level ? shift : 0),
                          middle_x(to) + (is_level ? 0 : shift), middle_y(to) + (is_level ? shift : 0), {});
  }
  return lines;
}

std::string text_of(const std::vector<int32_t>& group) {
  constexpr size_t kShown = 16;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, group.size()); ++i) text += cat(i == 0 ? "" : ", ", group[i]);
  return group.size() > kShown ? text + ", ..." : text;
}

// "16 groups of 2 ranks, the first 0, 1; all within a node".
std::string spread_text(const MeshPicture& picture, mesh::Axis axis) {
  const AxisSpread spread = spread_of(picture.mesh, axis, picture.ranks_per_node);
  const std::string across = spread.crossing == 0 ? "all within a node"
                             : spread.crossing == spread.groups
                                 ? cat("each across ", counted(spread.nodes_per_group, "node"))
                                 : cat(spread.crossing, " of them across nodes");
  return cat(counted(spread.groups, "group"), " of ", counted(degree(picture.mesh, axis), "rank"),
             ", the first ", text_of(group_of(picture.mesh, 0, axis)), "; ", across);
}

std::string draw_ranks(const MeshPicture& picture, const NodeGrid& grid, mesh::Axis axis, double top) {
  std::string nodes;
  std::string titles;
  for (int32_t node = 0; node < grid.nodes(); ++node) {
    const Box box = grid.node(node, top);
    nodes += rect_element(box, attribute("rx", 5));
    titles += text_element(box.x + kNodePadding, box.y + kNodeTitle - 5, {}, cat("node ", node));
  }
  std::string lines;
  std::vector<RowBox> cells;
  const int32_t size = degree(picture.mesh, axis);
  for (int32_t rank = 0; rank < grid.ranks(); ++rank) {
    const mesh::Coordinates place = coordinates_of(picture.mesh, rank);
    const std::vector<int32_t> group = group_of(picture.mesh, rank, axis);
    if (group.front() == rank) lines += draw_group(grid, group, top);
    cells.push_back({.box = grid.cell(rank, top),
                     .colour = shade(colour_of(axis), coordinate(place, axis), size),
                     .tip = cat("rank ", rank, ": ", to_string(place), "; with ranks ", text_of(group)),
                     .label = cat(rank)});
  }
  return group_element(attribute("fill", "#f6f7f9") + attribute("stroke", "#aab1ba"), nodes) +
         group_element(attribute("font-size", kTickFont), titles) +
         group_element(attribute("stroke", to_string(colour_of(axis))) + attribute("stroke-width", 2),
                       lines) +
         draw_boxes(cells, cat(grid.ranks() - 1));
}

}  // namespace

AxisSpread spread_of(const MeshShape& shape, mesh::Axis axis, int32_t ranks_per_node) {
  AxisSpread spread;
  const auto ranks = static_cast<int32_t>(shape.world_size());
  for (int32_t rank = 0; rank < ranks; ++rank) {
    if (coordinate(coordinates_of(shape, rank), axis) != 0) continue;
    std::set<int32_t> nodes;
    for (const int32_t member : group_of(shape, rank, axis)) nodes.insert(member / ranks_per_node);
    ++spread.groups;
    spread.crossing += nodes.size() > 1 ? 1 : 0;
    spread.nodes_per_group = std::max(spread.nodes_per_group, static_cast<int32_t>(nodes.size()));
  }
  return spread;
}

std::string draw_mesh(const MeshPicture& picture) {
  validate(picture.mesh);
  require<ConfigError>(picture.ranks_per_node >= 1,
                       "a drawing of the mesh needs at least 1 rank per node, got ", picture.ranks_per_node);
  constexpr int64_t kMostRanks = 4096;
  require<ConfigError>(picture.mesh.world_size() <= kMostRanks, "the mesh has ", picture.mesh.world_size(),
                       " ranks, too many to draw (at most ", kMostRanks, ")");
  const NodeGrid grid(picture);
  Drawing drawing(picture.title, {});
  double y = 58;
  for (const mesh::Axis axis : mesh::kAxes) {
    if (degree(picture.mesh, axis) == 1 && picture.mesh.world_size() > 1) continue;
    if (degree(picture.mesh, axis) == 1 && axis != mesh::Axis::kMp) continue;  // one rank alone is drawn once
    const auto add_line = [&](double font, std::string_view attributes, std::string_view text) {
      drawing.add(text_element(kMargin, y, attribute("font-size", font) + std::string(attributes), text),
                  kMargin + text_width(text, font));
    };
    add_line(kHeadingFont, attribute("font-weight", "bold") + attribute("fill", to_string(colour_of(axis))),
             long_name(axis));
    y += kNotePitch + 1;
    add_line(kNoteFont, "", spread_text(picture, axis));
    y += kNotePitch;
    for (const AxisNotes& notes : picture.notes) {
      if (notes.axis != axis) continue;
      for (const std::string& line : notes.lines) {
        add_line(kNoteFont, "", line);
        y += kNotePitch;
      }
    }
    y -= kNotePitch / 2 - 2;
    drawing.add(draw_ranks(picture, grid, axis, y), kMargin + grid.width());
    y += grid.height() + kPanelGap;
  }
  const double bottom = y - kPanelGap - 14;  // the footer stands 40 below a plot with an axis
  drawing.add_footer(bottom, picture.footer);
  return drawing.svg(bottom);
}

}  // namespace braid::report
