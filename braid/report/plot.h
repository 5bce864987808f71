// The core of every drawing: a document with title, legend and footer; scales and axes; rows of boxes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/report/svg.h"

namespace braid::report {

/// Between a drawing and the edges of its document, in pixels.
inline constexpr double kMargin = 16;

/// The numbers at an axis: their size, and how far below the grid their baseline is.
inline constexpr double kTickFont = 10;
inline constexpr double kNumbersBelow = 11;

/// The `fill` of hatched boxes. A document defines it if its legend contains it.
inline constexpr std::string_view kHatch = "url(#idle)";

/// The meaning of a fill.
struct LegendEntry {
  std::string fill;
  std::string text;
};

/// A document that grows with what is added: as wide as its widest part and a margin.
class Drawing {
 public:
  /// The title at the top, starting at `left`, and the legend in one line below it.
  Drawing(std::string title, const std::vector<LegendEntry>& legend, double left = kMargin);

  /// Another legend in a line below the first, for which the plot has to leave 18 pixels.
  void add_second_legend(const std::vector<LegendEntry>& legend);

  /// Adds elements above all earlier ones. `right` is their right edge, in pixels.
  void add(std::string_view elements, double right = 0);

  /// Adds a line of text below a plot that ends at `plot_bottom`, axis included.
  void add_footer(double plot_bottom, std::string_view text);

  /// The whole document, with room for an axis and one line of text below `plot_bottom`.
  std::string svg(double plot_bottom) const;

 private:
  void add_legend(const std::vector<LegendEntry>& legend, double top);

  std::string title_;
  double left_;
  std::string body_;
  double right_ = 0;
};

/// The positions of values along one direction of a plot.
struct Scale {
  double origin = 0;           ///< the pixel of 0
  double pixels_per_unit = 0;  ///< negative where values grow upwards

  double at(double value) const { return origin + value * pixels_per_unit; }
};

enum class AxisSide { kBelow, kLeft };

struct Axis {
  AxisSide side = AxisSide::kBelow;
  Scale scale;
  double end = 0;     ///< the largest value
  double factor = 1;  ///< printed numbers are the values times this
  int64_t most_ticks = 8;
};

/// Lines across `grid` at round numbers, which are printed beside it on the axis's side.
std::string draw_axis(const Axis& axis, const Box& grid);

/// 0, step, 2 step ... up to `end`, at most `most` steps; step is 1, 2 or 5 times a power of ten.
/// Just 0 unless end > 0.
std::vector<double> axis_ticks(double end, int64_t most);

/// A box with a tooltip; hatched unless it has a colour.
struct RowBox {
  Box box;
  std::optional<Colour> colour;
  std::string tip;
  std::string label{};
};

/// The boxes, hatched ones first, with their labels where they are readable: at the size at which
/// `widest_label` would fit too, if there is one.
std::string draw_boxes(const std::vector<RowBox>& boxes, std::string_view widest_label);

/// Equal rows, one below the other, in pixels.
struct Rows {
  double top = 0;
  double pitch = 0;   ///< from one row to the next
  double extra = 0;   ///< of a row, above its boxes
  double height = 0;  ///< of its boxes

  double y(size_t row) const { return top + pitch * static_cast<double>(row); }
};

/// One text for each row, at the middle of its boxes, in `largest_font` or what fits into a row; `heading`,
/// unless empty, stands above the rows. `attributes` as in svg.h.
std::string draw_row_texts(const Rows& rows, double x, double largest_font,
                           const std::vector<std::string>& texts, std::string_view attributes,
                           std::string_view heading = {});

}  // namespace braid::report
