#include "braid/report/plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "braid/base/error.h"

namespace braid::report {
namespace {

constexpr double kTitleFont = 16;
constexpr double kFooterFont = 12;
constexpr double kLegendFont = 11;
constexpr double kLegendTop = 38;
constexpr double kLegendPitch = 18;
/// From a text's middle down to its baseline, in font sizes.
constexpr double kMiddle = 0.36;

std::string hatch_definition() {
  return cat("<defs><pattern id=\"idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">",
             "<path d=\"M0 0H6V6H0Z\"", attribute("fill", "#f2f2f2"), "/>",
             "<path d=\"M-1 1L1 -1M0 6L6 0M5 7L7 5\"", attribute("stroke", "#c8c8c8"), "/>",
             "</pattern></defs>\n");
}

}  // namespace

Drawing::Drawing(std::string title, const std::vector<LegendEntry>& legend, double left)
    : title_(std::move(title)), left_(left) {
  if (std::ranges::any_of(legend, [](const LegendEntry& entry) { return entry.fill == kHatch; })) {
    add(hatch_definition());
  }
  add(text_element(left, 26, attribute("font-size", kTitleFont) + attribute("font-weight", "bold"), title_),
      left + text_width(title_, kTitleFont));
  add_legend(legend, kLegendTop);
}

void Drawing::add_second_legend(const std::vector<LegendEntry>& legend) {
  add_legend(legend, kLegendTop + kLegendPitch);
}

void Drawing::add_legend(const std::vector<LegendEntry>& legend, double top) {
  constexpr double kSquare = 12;
  constexpr double kTextOffset = kSquare + 5;
  constexpr double kGap = 18;
  double x = left_;
  for (const LegendEntry& entry : legend) {
    const double next = x + kTextOffset + text_width(entry.text, kLegendFont) + kGap;
    add(rect_element({.x = x, .y = top, .width = kSquare, .height = kSquare}, attribute("fill", entry.fill)));
    add(text_element(x + kTextOffset, top + kSquare - 2, attribute("font-size", kLegendFont), entry.text),
        next);
    x = next;
  }
}

void Drawing::add(std::string_view elements, double right) {
  body_ += elements;
  right_ = std::max(right_, right);
}

void Drawing::add_footer(double plot_bottom, std::string_view text) {
  add(text_element(kMargin, plot_bottom + 40, attribute("font-size", kFooterFont), text),
      kMargin + text_width(text, kFooterFont));
}

std::string Drawing::svg(double plot_bottom) const {
  return svg_document(right_ + kMargin, plot_bottom + 54, title_, body_);
}

std::vector<double> axis_ticks(double end, int64_t most) {
  if (!(end > 0)) return {0};
  const double least_step = end / static_cast<double>(std::max<int64_t>(1, most));
  const double decade = std::pow(10.0, std::floor(std::log10(least_step)));
  double step = decade;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = decade * factor;
    if (step >= least_step * (1 - 1e-9)) break;
  }
  std::vector<double> ticks;
  for (int64_t i = 0; static_cast<double>(i) * step <= end * (1 + 1e-9); ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::string draw_axis(const Axis& axis, const Box& grid) {
  const bool is_below = axis.side == AxisSide::kBelow;
  std::string lines;
  std::string numbers;
  for (const double tick : axis_ticks(axis.end * axis.factor, axis.most_ticks)) {
    const double at = axis.scale.at(tick / axis.factor);
    lines += is_below ? line_element(at, grid.y, at, grid.bottom(), {})
                      : line_element(grid.x, at, grid.right(), at, {});
    numbers += is_below ? text_element(at, grid.bottom() + kNumbersBelow, {}, number_text(tick))
                        : text_element(grid.x - 6, at + kTickFont * kMiddle, {}, number_text(tick));
  }
  return group_element(attribute("stroke", "#dcdcdc"), lines) +
         group_element(
             attribute("font-size", kTickFont) + attribute("text-anchor", is_below ? "middle" : "end"),
             numbers);
}

std::string draw_boxes(const std::vector<RowBox>& boxes, std::string_view widest_label) {
  constexpr double kLargestFont = 12;
  std::string hatched;
  std::string coloured;
  std::string labels;
  for (const auto& [box, colour, tip, label] : boxes) {
    if (!colour) {
      hatched += rect_element(box, {}, tip);
      continue;
    }
    coloured += rect_element(box, attribute("fill", to_string(*colour)), tip);
    if (label.empty()) continue;
    double font = fitting_font_size(widest_label, box, kLargestFont);
    if (font == 0) font = fitting_font_size(label, box, kLargestFont);
    if (font == 0) continue;
    labels += text_element(
        box.x + box.width / 2, box.y + box.height / 2 + font * kMiddle,
        attribute("font-size", font) + attribute("fill", to_string(text_colour_on(*colour))), label);
  }
  // Tool tips belong to the boxes: the labels above them must let the pointer through.
  return (hatched.empty() ? "" : group_element(attribute("fill", kHatch), hatched)) +
         group_element(attribute("stroke", "#ffffff") + attribute("stroke-width", 0.75), coloured) +
         group_element(attribute("text-anchor", "middle") + attribute("pointer-events", "none"), labels);
}

std::string draw_row_texts(const Rows& rows, double x, double largest_font,
                           const std::vector<std::string>& texts, std::string_view attributes,
                           std::string_view heading) {
  const double font = std::min(largest_font, rows.height - 2);
  std::string elements = heading.empty() ? "" : text_element(x, rows.top - 7, {}, heading);
  for (size_t row = 0; row < texts.size(); ++row) {
    const double middle = rows.y(row) + rows.extra + rows.height / 2;
    elements += text_element(x, middle + font * kMiddle, {}, texts[row]);
  }
  return group_element(cat(attribute("font-size", font), attributes), elements);
}

}  // namespace braid::report
