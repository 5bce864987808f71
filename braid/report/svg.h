// SVG 1.1 as text: numbers, escaped texts, colours and elements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::report {

/// A rectangle in pixels; y grows downwards.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }

  friend bool operator==(const Box&, const Box&) = default;
};

/// Whether their interiors intersect.
bool overlap(const Box& a, const Box& b);

/// An opaque sRGB colour.
struct Colour {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Colour&, const Colour&) = default;
};

/// "#0072b2".
std::string to_string(const Colour& colour);

/// `colour` mixed with white: `share` 0 leaves it as it is, 1 gives white.
Colour lighter(const Colour& colour, double share);

/// Black or white, whichever contrasts more with `background`. Source: WCAG 2.1, contrast ratio.
Colour text_colour_on(const Colour& background);

/// `text` escaped for XML text and attribute values. What XML 1.0 does not allow (control characters, invalid
/// UTF-8) becomes U+FFFD.
std::string xml_escaped(std::string_view text);

/// `value` with at most two decimals and no exponent: "3", "0.5", "12.25", "-1".
std::string number_text(double value);

/// The approximate width of `text` in the usual sans-serif fonts, in pixels.
double text_width(std::string_view text, double font_size);

/// The largest font size, in steps of half a pixel up to `largest`, at which `text` fits in `box`; 0 if that
/// would be too small to read.
double fitting_font_size(std::string_view text, const Box& box, double largest);

/// Below, `attributes` are inserted verbatim, as attribute() returns them.

/// A document of `body` on a white background, so that it looks the same on dark pages, with a title that
/// viewers show or read aloud. Its size is rounded up to whole pixels. Texts are sans-serif, dark grey,
/// size 12.
std::string svg_document(double width, double height, std::string_view title, std::string_view body);

/// With a tooltip unless `tip` is empty.
std::string rect_element(const Box& box, std::string_view attributes, std::string_view tip = {});
std::string text_element(double x, double y, std::string_view attributes, std::string_view text);
std::string line_element(double x1, double y1, double x2, double y2, std::string_view attributes);

/// Elements that share attributes.
std::string group_element(std::string_view attributes, std::string_view elements);

/// ` name="value"`, with a leading space, so that attributes can be concatenated.
std::string attribute(std::string_view name, std::string_view value);
std::string attribute(std::string_view name, double value);

}  // namespace braid::report
