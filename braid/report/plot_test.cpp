#include "braid/report/plot.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

TEST(AxisTicks, RoundStepsUpToTheEnd) {
  EXPECT_EQ(axis_ticks(33, 10), (std::vector<double>{0, 5, 10, 15, 20, 25, 30}));
  EXPECT_EQ(axis_ticks(10, 10).size(), 11u);
  EXPECT_EQ(axis_ticks(10, 9), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks(0, 10), std::vector<double>{0});
  EXPECT_EQ(axis_ticks(std::numeric_limits<double>::quiet_NaN(), 10), std::vector<double>{0});
  for (double end = 1e-7; end < 1e7; end *= 1.37) {
    for (const int64_t most : {1, 4, 13}) {
      const std::vector<double> ticks = axis_ticks(end, most);
      EXPECT_LE(static_cast<int64_t>(ticks.size()), most + 1) << end;
      EXPECT_LE(ticks.back(), end * (1 + 1e-6));
    }
  }
}

TEST(DrawAxis, NumbersAreScaledAndLinesToScale) {
  const Box grid = {.x = 100, .y = 20, .width = 300, .height = 200};
  const Axis below = {.side = AxisSide::kBelow,
                      .scale = {.origin = 100, .pixels_per_unit = 1000},
                      .end = 0.3,
                      .factor = 1e3,
                      .most_ticks = 3};
  const Axis left = {
      .side = AxisSide::kLeft, .scale = {.origin = 220, .pixels_per_unit = -100}, .end = 2, .most_ticks = 2};
  const auto elements =
      XmlReader(svg_document(500, 300, "", draw_axis(below, grid) + draw_axis(left, grid))).read();
  EXPECT_EQ(texts_of(elements), (std::vector<std::string>{"0", "100", "200", "300", "0", "1", "2"}));
  std::vector<std::array<double, 4>> lines;
  std::vector<double> across;
  for (const XmlElement& element : elements) {
    if (element.name == "line")
      lines.push_back(
          {element.number("x1"), element.number("y1"), element.number("x2"), element.number("y2")});
    if (element.name == "text") across.push_back(element.number(across.size() < 4 ? "x" : "y"));
  }
  EXPECT_EQ(lines, (std::vector<std::array<double, 4>>{{100, 20, 100, 220},
                                                       {200, 20, 200, 220},
                                                       {300, 20, 300, 220},
                                                       {400, 20, 400, 220},
                                                       {100, 220, 400, 220},
                                                       {100, 120, 400, 120},
                                                       {100, 20, 400, 20}}));
  EXPECT_EQ(across, (std::vector<double>{100, 200, 300, 400, 223.6, 123.6, 23.6}));
}

TEST(Drawing, IsAsWideAsItsWidestPart) {
  const auto width = [](const std::string& title, const std::vector<LegendEntry>& legend, double right,
                        const std::string& footer) {
    Drawing drawing(title, legend);
    drawing.add({}, right);
    drawing.add_footer(100, footer);
    const auto elements = XmlReader(drawing.svg(100)).read();
    EXPECT_EQ(elements[0].number("height"), 154);
    return elements[0].number("width");
  };
  EXPECT_EQ(width("", {}, 300, ""), 300 + kMargin);
  EXPECT_GE(width(std::string(50, 't'), {}, 300, ""), text_width(std::string(50, 't'), 16) + 2 * kMargin);
  EXPECT_GE(width("", {}, 300, std::string(80, 'f')), text_width(std::string(80, 'f'), 12) + 2 * kMargin);
  const std::vector<LegendEntry> legend(10, {.fill = "#123456", .text = "ten characters"});
  EXPECT_GE(width("", legend, 300, ""), 10 * (12 + text_width("ten characters", 11)) + 2 * kMargin);
}

TEST(Drawing, DefinesTheHatchThatItsLegendHas) {
  const auto svg_of = [](std::string_view fill) {
    return Drawing("t", {{.fill = std::string(fill), .text = "x"}}).svg(100);
  };
  EXPECT_NE(svg_of(kHatch).find("<pattern id=\"idle\""), std::string::npos);
  EXPECT_EQ(svg_of("#123456").find("<pattern"), std::string::npos);
}

TEST(DrawBoxes, LabelsWhereThereIsRoom) {
  const Colour dark = {.red = 1}, light = {.red = 250, .green = 250, .blue = 250};
  const std::string body = draw_boxes(
      {{.box = {.width = 30, .height = 20}, .colour = dark, .tip = "first", .label = "7"},
       {.box = {.x = 30, .width = 9, .height = 20}, .colour = light, .tip = "narrow", .label = "8"},
       {.box = {.x = 40, .width = 2, .height = 20}, .colour = light, .tip = "too narrow", .label = "9"},
       {.box = {.x = 50, .width = 30, .height = 20}, .colour = light, .tip = "no label"},
       {.box = {.x = 90, .width = 30, .height = 20}, .colour = {}, .tip = "hatched"}},
      "100");
  const auto elements = XmlReader(svg_document(200, 100, "", body)).read();
  EXPECT_EQ(texts_of(elements), (std::vector<std::string>{"7", "8"}));
  std::vector<std::string> tips, looks;
  for (const TippedBox& box : tipped_boxes(elements)) tips.push_back(box.tip);
  EXPECT_EQ(tips, (std::vector<std::string>{"hatched", "first", "narrow", "too narrow", "no label"}));
  for (const XmlElement& element : elements) {
    if (element.name == "text")
      looks.push_back(element.attributes.at("fill") + " " + element.attributes.at("font-size"));
  }
  EXPECT_EQ(looks, (std::vector<std::string>{"#ffffff 12", "#000000 11.5"}));
}

}  // namespace
}  // namespace braid::report
