// Schedules compared: how much memory each trades for how little idle time.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace braid::report {

/// One schedule.
struct TradePoint {
  std::string name;
  double peak_memory = 0;  ///< in relation to some other schedule's, or in any unit
  double bubble_rate = 0;  ///< a share: 0.25 is drawn as 25%

  friend bool operator==(const TradePoint&, const TradePoint&) = default;
};

struct TradeOptions {
  std::string title = "Bubble against memory";
  std::string memory_label = "peak memory, relative to 1F1B";
  std::string bubble_label = "bubble rate, %";
};

/// The points that no other beats: none has both at most their memory and at most their bubble rate, and one
/// of the two less. By ascending memory; of equal points the first.
std::vector<TradePoint> pareto_front(std::span<const TradePoint> points);

/// An SVG document like draw_svg's: memory to the right, bubble rate upwards, both from 0, so that the best
/// is at the bottom left; the Pareto front as a step line, its points filled. Names stand where they cover
/// neither points nor the front nor each other, with a line to the point if that is further away; a name
/// without room is left to the tool tip, which every point has. Throws ConfigError if there are no points or
/// more than 1000, or one's numbers are negative or not finite.
std::string draw_trade(const std::vector<TradePoint>& points, const TradeOptions& options);

}  // namespace braid::report
