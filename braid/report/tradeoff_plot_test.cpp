#include "braid/report/tradeoff_plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "braid/base/error.h"
#include "braid/base/random.h"
#include "braid/report/svg.h"
#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

std::vector<TradeoffPoint> random_points(int32_t count, uint64_t seed) {
  std::vector<TradeoffPoint> points;
  for (int32_t i = 0; i < count; ++i) {
    const auto random = philox(seed, static_cast<uint64_t>(i));
    // Few different values, so that some points coincide.
    points.push_back({.name = cat("schedule ", i),
                      .peak_memory = 0.5 + 0.125 * (random[0] % 13),
                      .bubble_rate = 0.01 * (random[1] % 30)});
  }
  return points;
}

bool is_dominated(const TradeoffPoint& point, const std::vector<TradeoffPoint>& points) {
  return std::any_of(points.begin(), points.end(), [&](const TradeoffPoint& other) {
    return other.peak_memory <= point.peak_memory && other.bubble_rate <= point.bubble_rate &&
           (other.peak_memory < point.peak_memory || other.bubble_rate < point.bubble_rate);
  });
}

// The boxes of all labels.
std::vector<Box> label_boxes(const std::vector<XmlElement>& elements) {
  std::vector<Box> boxes;
  for (const XmlElement& element : elements) {
    if (element.name != "text" || !element.text.starts_with("schedule ")) continue;
    const double width = text_width(element.text, 12);
    boxes.push_back({.x = element.number("x") - width / 2,
                     .y = element.number("y") - 10.9,
                     .width = width,
                     .height = 13.8});
  }
  return boxes;
}

TEST(ParetoFront, HasEveryNondominatedPlaceOnce) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto points = random_points(1 + static_cast<int32_t>(seed % 20), seed);
    const auto front = pareto_front(points);
    std::set<std::pair<double, double>> expected;
    for (const TradeoffPoint& point : points) {
      if (!is_dominated(point, points)) expected.insert({point.peak_memory, point.bubble_rate});
    }
    ASSERT_EQ(front.size(), expected.size());
    size_t i = 0;
    for (const auto& [memory, bubble] : expected) {
      EXPECT_EQ(front[i].peak_memory, memory) << "by ascending memory";
      EXPECT_EQ(front[i++].bubble_rate, bubble);
    }
  }
  EXPECT_TRUE(pareto_front({}).empty());
  EXPECT_EQ(pareto_front(std::vector<TradeoffPoint>{{"a", 1, 0.5}, {"b", 1, 0.5}})[0].name, "a");
}

TEST(DrawTradeoff, LabelsCoverNeitherPointsNorEachOther) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto points = random_points(12, seed);
    const auto elements = XmlReader(draw_tradeoff(points, {})).read();
    const auto labels = label_boxes(elements);
    EXPECT_EQ(labels.size(), points.size()) << "all fit";
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_GE(labels[i].x, 0);
      EXPECT_LE(labels[i].right(), elements[0].number("width"));
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(labels[i], labels[j])) << seed;
      for (const XmlElement& element : elements) {
        if (element.name != "circle") continue;
        const Box circle = {
            .x = element.number("cx") - 5, .y = element.number("cy") - 5, .width = 10, .height = 10};
        EXPECT_FALSE(overlap(labels[i], circle)) << seed;
      }
    }
  }
}

TEST(DrawTradeoff, CrowdedNamesAppearInTooltipsOnly) {
  const std::vector<TradeoffPoint> points(300, {.name = "schedule", .peak_memory = 1, .bubble_rate = 0.25});
  const auto elements = XmlReader(draw_tradeoff(points, {})).read();
  const auto texts = texts_of(elements);
  EXPECT_LT(std::count(texts.begin(), texts.end(), "schedule"), 300);
  EXPECT_EQ(
      std::count_if(elements.begin(), elements.end(),
                    [](const XmlElement& e) { return e.text == "schedule: memory 1, bubble rate 25%"; }),
      300);
}

TEST(DrawTradeoff, PointsAreToScaleAndTheFrontIsAStepLine) {
  const std::vector<TradeoffPoint> points = {
      {"1F1B", 1, 0.25}, {"V-Half", 0.5, 0.125}, {"ZBV <>&", 1, 0}, {"dominated", 1.25, 0.25}};
  const auto elements =
      XmlReader(draw_tradeoff(points, {.title = "T", .memory_label = "M", .bubble_label = "B"})).read();
  std::vector<XmlElement> circles;
  std::string path;
  for (const XmlElement& element : elements) {
    if (element.name == "circle") circles.push_back(element);
    if (element.name == "path") path = element.attributes.at("d");
  }
  ASSERT_EQ(circles.size(), 4u);
  EXPECT_EQ(circles[0].number("cy"), circles[3].number("cy"));
  EXPECT_EQ(circles[2].number("cy"), 446) << "no bubble is on the axis";
  EXPECT_NEAR(circles[1].number("cy"), (446 + circles[0].number("cy")) / 2, 0.01);
  EXPECT_NEAR(circles[1].number("cx") - 64, (circles[0].number("cx") - 64) / 2, 0.01);
  EXPECT_EQ(circles[0].attributes.at("fill"), "#ffffff");
  EXPECT_NE(circles[1].attributes.at("fill"), "#ffffff");
  EXPECT_NE(circles[2].attributes.at("fill"), "#ffffff");
  const auto at = [](const XmlElement& circle) {
    return cat(circle.attributes.at("cx"), " ", circle.attributes.at("cy"));
  };
  EXPECT_EQ(path, cat("M", circles[1].attributes.at("cx"), " 46L", at(circles[1]), "L",
                      circles[2].attributes.at("cx"), " ", circles[1].attributes.at("cy"), "L",
                      at(circles[2]), "L704 446"));
  const auto texts = texts_of(elements);
  for (const char* text : {"T", "M", "B", "ZBV <>&", "1F1B", "V-Half", "dominated"}) {
    EXPECT_EQ(std::count(texts.begin(), texts.end(), text), 1) << text;
  }
}

TEST(DrawTradeoff, AllZeroIsDrawn) { EXPECT_NO_THROW(XmlReader(draw_tradeoff({{"free", 0, 0}}, {})).read()); }

TEST(DrawTradeoff, MisuseIsRejected) {
  const auto error_of = [](const std::vector<TradeoffPoint>& points) -> std::string {
    try {
      draw_tradeoff(points, {});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({}), "a trade-off plot needs 1 to 1000 points, got 0");
  EXPECT_EQ(error_of(random_points(1001, 1)), "a trade-off plot needs 1 to 1000 points, got 1001");
  EXPECT_EQ(error_of({{"x", -1, 0.5}}),
            "point x: memory and bubble rate must be finite and at least 0, got -1 and 0.5");
  EXPECT_EQ(error_of({{"x", 1, -0.5}}),
            "point x: memory and bubble rate must be finite and at least 0, got 1 and -0.5");
  EXPECT_NE(error_of({{"x", 1, std::numeric_limits<double>::quiet_NaN()}}), "no error");
}

}  // namespace
}  // namespace braid::report
