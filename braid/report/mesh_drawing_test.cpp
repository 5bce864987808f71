#include "braid/report/mesh_drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "braid/base/error.h"
#include "braid/report/svg.h"
#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

using mesh::Axis;
using mesh::MeshShape;

std::vector<MeshShape> small_meshes() {
  std::vector<MeshShape> meshes;
  for (const int32_t mp : {1, 2, 3, 8}) {
    for (const int32_t sharding : {1, 2, 4}) {
      for (const int32_t pp : {1, 4}) {
        for (const int32_t dp : {1, 2})
          meshes.push_back({.mp = mp, .sharding = sharding, .pp = pp, .dp = dp});
      }
    }
  }
  return meshes;
}

TEST(DrawMesh, EveryAxisHasEveryRankOnceInItsNode) {
  for (const MeshShape& shape : small_meshes()) {
    for (const int32_t ranks_per_node : {1, 3, 8, 64}) {
      SCOPED_TRACE(to_string(shape) + " on nodes of " + std::to_string(ranks_per_node));
      const auto elements =
          XmlReader(draw_mesh({.title = "ranks", .mesh = shape, .ranks_per_node = ranks_per_node})).read();
      const std::vector<TippedBox> cells = tipped_boxes(elements);
      const auto ranks = static_cast<size_t>(shape.world_size());
      size_t axes = 0;
      for (const Axis axis : mesh::kAxes) axes += degree(shape, axis) > 1 ? 1 : 0;
      axes = std::max<size_t>(1, axes);
      ASSERT_EQ(cells.size(), axes * ranks);
      std::vector<Box> nodes;
      for (const XmlElement& element : elements) {
        if (element.name != "rect" || !element.attributes.contains("rx")) continue;
        nodes.push_back(
            {element.number("x"), element.number("y"), element.number("width"), element.number("height")});
      }
      const size_t per_axis =
          (ranks + static_cast<size_t>(ranks_per_node) - 1) / static_cast<size_t>(ranks_per_node);
      ASSERT_EQ(nodes.size(), axes * per_axis);
      for (size_t i = 0; i < cells.size(); ++i) {
        const size_t rank = i % ranks;
        const TippedBox& cell = cells[i];
        EXPECT_TRUE(cell.tip.starts_with("rank " + std::to_string(rank) + ": ")) << cell.tip;
        const Box& node = nodes[i / ranks * per_axis + rank / static_cast<size_t>(ranks_per_node)];
        EXPECT_TRUE(node.x < cell.x && cell.x + cell.width < node.right() && node.y < cell.y &&
                    cell.y + cell.height < node.bottom())
            << cell.tip;
        for (size_t k = i + 1; k < std::min(cells.size(), i + 20); ++k) {
          EXPECT_FALSE(braid::report::overlap({cell.x, cell.y, cell.width, cell.height},
                                              {cells[k].x, cells[k].y, cells[k].width, cells[k].height}));
        }
        EXPECT_LE(cell.x + cell.width, elements[0].number("width"));
      }
      for (size_t i = 0; i < nodes.size(); ++i) {
        EXPECT_LE(nodes[i].bottom(), elements[0].number("height"));
        for (size_t k = i + 1; k < nodes.size(); ++k)
          EXPECT_FALSE(braid::report::overlap(nodes[i], nodes[k]));
      }
    }
  }
}

TEST(DrawMesh, SpreadCountsTheGroupsThatCrossNodes) {
  for (const MeshShape& shape : small_meshes()) {
    for (const Axis axis : mesh::kAxes) {
      const AxisSpread alone = spread_of(shape, axis, static_cast<int32_t>(shape.world_size()));
      EXPECT_EQ(alone, (AxisSpread{.groups = shape.world_size() / degree(shape, axis)}));
      const AxisSpread single = spread_of(shape, axis, 1);
      EXPECT_EQ(single.nodes_per_group, degree(shape, axis));
      EXPECT_EQ(single.crossing, degree(shape, axis) > 1 ? single.groups : 0);
    }
  }
  const MeshShape recipe = {.mp = 2, .sharding = 4, .pp = 4};
  EXPECT_EQ(spread_of(recipe, Axis::kSharding, 8), (AxisSpread{.groups = 8}));
  EXPECT_EQ(spread_of(recipe, Axis::kPp, 8), (AxisSpread{.groups = 8, .crossing = 8, .nodes_per_group = 4}));
}

TEST(DrawMesh, SaysWhoTalksToWhomAndWhatItIsGiven) {
  const auto texts = texts_of(XmlReader(draw_mesh({.title = "<title>",
                                                   .mesh = {.mp = 2, .pp = 4},
                                                   .ranks_per_node = 4,
                                                   .notes = {{.axis = Axis::kPp, .lines = {"8 messages"}}},
                                                   .footer = "at last"}))
                                  .read());
  EXPECT_EQ(texts.front(), "<title>");
  EXPECT_EQ(texts.back(), "at last");
  const auto has = [&](std::string_view text) { return std::count(texts.begin(), texts.end(), text) == 1; };
  EXPECT_TRUE(has("4 groups of 2 ranks, the first 0, 1; all within a node"));
  EXPECT_TRUE(has("2 groups of 4 ranks, the first 0, 2, 4, 6; each across 2 nodes"));
  EXPECT_TRUE(has("8 messages"));
}

TEST(DrawMesh, MisuseIsRejected) {
  EXPECT_THROW(draw_mesh({.mesh = {.mp = 0}}), ConfigError);
  EXPECT_THROW(draw_mesh({.mesh = {.mp = 2}, .ranks_per_node = 0}), ConfigError);
  EXPECT_THROW(draw_mesh({.mesh = {.mp = 64, .dp = 65}}), ConfigError);
}

}  // namespace
}  // namespace braid::report
