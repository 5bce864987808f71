#include "braid/report/tradeoff_plot.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "braid/base/error.h"
#include "braid/report/plot.h"

namespace braid::report {
namespace {

constexpr double kLabelFont = 12;
constexpr double kRadius = 5;
constexpr Box kPlot = {.x = 64, .y = 46, .width = 640, .height = 400};
constexpr Colour kFront = {.red = 0x2f, .green = 0x4f, .blue = 0xb0};
constexpr Colour kDominated = {.red = 0x76, .green = 0x7b, .blue = 0x82};

struct Pixel {
  double x = 0;
  double y = 0;
};

// From a point's numbers to pixels.
struct Axes {
  Axis memory;
  Axis bubble;

  Pixel pixel_of(const TradeoffPoint& point) const {
    return {.x = memory.scale.at(point.peak_memory), .y = bubble.scale.at(point.bubble_rate)};
  }
};

bool dominates(const TradeoffPoint& a, const TradeoffPoint& b) {
  return a.peak_memory <= b.peak_memory && a.bubble_rate <= b.bubble_rate &&
         (a.peak_memory < b.peak_memory || a.bubble_rate < b.bubble_rate);
}

Axes axes_for(const std::vector<TradeoffPoint>& points) {
  constexpr double kHeadroom = 1.08;
  double memory = 0;
  double bubble = 0;
  for (const TradeoffPoint& point : points) {
    memory = std::max(memory, point.peak_memory);
    bubble = std::max(bubble, point.bubble_rate);
  }
  memory = memory > 0 ? memory * kHeadroom : 1;
  bubble = bubble > 0 ? bubble * kHeadroom : 1;
  return {.memory = {.side = AxisSide::kBelow,
                     .scale = {.origin = kPlot.x, .pixels_per_unit = kPlot.width / memory},
                     .end = memory},
          .bubble = {.side = AxisSide::kLeft,
                     .scale = {.origin = kPlot.bottom(), .pixels_per_unit = -kPlot.height / bubble},
                     .end = bubble,
                     .factor = 100}};
}

Box around(const Pixel& pixel) {
  constexpr double kReach = kRadius + 1;
  return {.x = pixel.x - kReach, .y = pixel.y - kReach, .width = 2 * kReach, .height = 2 * kReach};
}

bool is_inside_plot(const Box& box) {
  return box.x >= kPlot.x && box.right() <= kPlot.right() && box.y >= kPlot.y &&
         box.bottom() <= kPlot.bottom();
}

// The label's box whose side or corner nearest to the point lies at `distance` from it, in the direction
// `angle` (0 is right, clockwise).
Box label_box(const Pixel& pixel, double width, double distance, double angle) {
  constexpr double kHeight = kLabelFont + 2;
  const double x = std::cos(angle);
  const double y = std::sin(angle);
  return {.x = pixel.x + x * distance - width * (1 - x) / 2,
          .y = pixel.y + y * distance - kHeight * (1 - y) / 2,
          .width = width,
          .height = kHeight};
}

// The nearest free place, in rings around the point; the right-hand side is tried first.
std::optional<Box> place_label(const Pixel& pixel, double width, const std::vector<Box>& taken) {
  constexpr double kNearest = kRadius + 4;
  constexpr double kStep = 6;
  constexpr double kFarthest = 150;
  constexpr int kDirections = 16;
  for (double distance = kNearest; distance <= kFarthest; distance += kStep) {
    for (int turn = 0; turn < kDirections; ++turn) {
      const Box box = label_box(pixel, width, distance, 2 * std::numbers::pi * turn / kDirections);
      const auto is_taken = [&](const Box& other) { return overlap(box, other); };
      if (is_inside_plot(box) && std::none_of(taken.begin(), taken.end(), is_taken)) return box;
    }
  }
  return std::nullopt;
}

// The step line's corners: from the top edge down to the front's first point, and from its last one to the
// right edge. Points to the right of the line or above it are dominated.
std::vector<Pixel> front_corners(const std::vector<TradeoffPoint>& points, const Axes& axes) {
  std::vector<Pixel> corners;
  double above = kPlot.y;
  for (const TradeoffPoint& point : pareto_front(points)) {
    const Pixel pixel = axes.pixel_of(point);
    corners.push_back({.x = pixel.x, .y = above});
    corners.push_back(pixel);
    above = pixel.y;
  }
  corners.push_back({.x = kPlot.right(), .y = above});
  return corners;
}

std::string draw_front(const std::vector<Pixel>& corners) {
  std::string path;
  for (const Pixel& corner : corners) {
    path += cat(path.empty() ? "M" : "L", number_text(corner.x), " ", number_text(corner.y));
  }
  return cat("<path", attribute("d", path), attribute("fill", "none"),
             attribute("stroke", to_string(lighter(kFront, 0.45))), attribute("stroke-width", 2), "/>\n");
}

// The points and the front, which labels must not cover.
std::vector<Box> obstacles(const std::vector<TradeoffPoint>& points, const Axes& axes) {
  constexpr double kHalfStroke = 1;
  std::vector<Box> taken;
  for (const TradeoffPoint& point : points) taken.push_back(around(axes.pixel_of(point)));
  const std::vector<Pixel> corners = front_corners(points, axes);
  for (size_t i = 1; i < corners.size(); ++i) {
    const auto [left, right] = std::minmax(corners[i - 1].x, corners[i].x);
    const auto [top, bottom] = std::minmax(corners[i - 1].y, corners[i].y);
    taken.push_back({.x = left - kHalfStroke,
                     .y = top - kHalfStroke,
                     .width = right - left + 2 * kHalfStroke,
                     .height = bottom - top + 2 * kHalfStroke});
  }
  return taken;
}

std::string draw_leader(const Pixel& pixel, const Box& label) {
  constexpr double kLongestWithout = kRadius + 11;
  const double x = std::clamp(pixel.x, label.x, label.right());
  const double y = std::clamp(pixel.y, label.y, label.bottom());
  if (std::hypot(x - pixel.x, y - pixel.y) <= kLongestWithout) return {};
  return line_element(pixel.x, pixel.y, x, y, attribute("stroke", to_string(kDominated)));
}

std::string draw_labels(const std::vector<TradeoffPoint>& points, const Axes& axes) {
  std::vector<Box> taken = obstacles(points, axes);
  std::string leaders;
  std::string labels;
  for (const TradeoffPoint& point : points) {
    const Pixel pixel = axes.pixel_of(point);
    const std::optional<Box> box = place_label(pixel, text_width(point.name, kLabelFont), taken);
    if (!box) continue;
    taken.push_back(*box);
    leaders += draw_leader(pixel, *box);
    labels += text_element(box->x + box->width / 2, box->bottom() - 3, {}, point.name);
  }
  return group_element(attribute("stroke-width", 0.75), leaders) +
         group_element(attribute("font-size", kLabelFont) + attribute("text-anchor", "middle"), labels);
}

std::string draw_points(const std::vector<TradeoffPoint>& points, const Axes& axes) {
  std::string circles;
  for (const TradeoffPoint& point : points) {
    const auto dominates_point = [&](const TradeoffPoint& other) { return dominates(other, point); };
    const bool is_in_front = std::none_of(points.begin(), points.end(), dominates_point);
    const Pixel pixel = axes.pixel_of(point);
    const std::string tip = cat(point.name, ": memory ", number_text(point.peak_memory), ", bubble rate ",
                                number_text(100 * point.bubble_rate), "%");
    circles += cat("<circle", attribute("cx", pixel.x), attribute("cy", pixel.y), attribute("r", kRadius),
                   attribute("fill", is_in_front ? to_string(kFront) : "#ffffff"),
                   attribute("stroke", to_string(is_in_front ? kFront : kDominated)), "><title>",
                   xml_escaped(tip), "</title></circle>\n");
  }
  return group_element(attribute("stroke-width", 1.5), circles);
}

std::string draw_axis_labels(const TradeoffOptions& options) {
  const double middle = kPlot.y + kPlot.height / 2;
  const std::string upwards = cat("rotate(-90 20 ", number_text(middle), ")");
  return group_element(
      attribute("text-anchor", "middle"),
      text_element(kPlot.x + kPlot.width / 2, kPlot.bottom() + 38, {}, options.memory_label) +
          text_element(20, middle, attribute("transform", upwards), options.bubble_label));
}

}  // namespace

std::vector<TradeoffPoint> pareto_front(std::span<const TradeoffPoint> points) {
  std::vector<TradeoffPoint> sorted(points.begin(), points.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const TradeoffPoint& a, const TradeoffPoint& b) {
    return a.peak_memory != b.peak_memory ? a.peak_memory < b.peak_memory : a.bubble_rate < b.bubble_rate;
  });
  std::vector<TradeoffPoint> front;
  for (const TradeoffPoint& point : sorted) {
    if (front.empty() || point.bubble_rate < front.back().bubble_rate) front.push_back(point);
  }
  return front;
}

std::string draw_tradeoff(const std::vector<TradeoffPoint>& points, const TradeoffOptions& options) {
  constexpr size_t kMostPoints = 1000;
  require<ConfigError>(!points.empty() && points.size() <= kMostPoints, "a trade-off plot needs 1 to ",
                       kMostPoints, " points, got ", points.size());
  for (const TradeoffPoint& point : points) {
    const bool is_finite = std::isfinite(point.peak_memory) && std::isfinite(point.bubble_rate);
    require<ConfigError>(is_finite && point.peak_memory >= 0 && point.bubble_rate >= 0, "point ", point.name,
                         ": memory and bubble rate must be finite and at least 0, got ", point.peak_memory,
                         " and ", point.bubble_rate);
  }
  const Axes axes = axes_for(points);
  Drawing drawing(options.title, {}, kPlot.x);
  drawing.add(draw_axis(axes.memory, kPlot) + draw_axis(axes.bubble, kPlot), kPlot.right());
  drawing.add(draw_axis_labels(options));
  drawing.add(draw_front(front_corners(points, axes)));
  drawing.add(draw_labels(points, axes));
  drawing.add(draw_points(points, axes));
  return drawing.svg(kPlot.bottom());
}

}  // namespace braid::report
