// Schedules compared: peak memory against bubble rate.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace braid::report {

/// One schedule.
struct TradeoffPoint {
  std::string name;
  double peak_memory = 0;  ///< relative to another schedule's, or in any unit
  double bubble_rate = 0;  ///< a share: 0.25 is drawn as 25%

  friend bool operator==(const TradeoffPoint&, const TradeoffPoint&) = default;
};

struct TradeoffOptions {
  std::string title = "Bubble against memory";
  std::string memory_label = "peak memory, relative to 1F1B";
  std::string bubble_label = "bubble rate, %";
};

/// The points that no other point dominates, i.e. none is at most as large in both memory and bubble rate and
/// smaller in one of them. By ascending memory; of equal points the first.
std::vector<TradeoffPoint> pareto_front(std::span<const TradeoffPoint> points);

/// An SVG document like draw_svg's: memory to the right, bubble rate upwards, both from 0, so that the bottom
/// left is best; the Pareto front as a step line with filled points. Labels are placed where they cover
/// neither points nor the front nor each other, with a leader line to a distant point; a name without room
/// appears only in the tooltip, which every point has. Throws ConfigError if there are no points or
/// more than 1000, or one's numbers are negative or not finite.
std::string draw_tradeoff(const std::vector<TradeoffPoint>& points, const TradeoffOptions& options);

}  // namespace braid::report
