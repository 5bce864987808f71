#include "braid/report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::report {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";
constexpr std::string_view kFonts = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif";

// The bytes of the UTF-8 character at the start of `text`, or 0 if it is not valid.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kSmallest[length] || is_surrogate || code > 0x10FFFF ? 0 : length;
}

// `character` is one complete UTF-8 character. Source: XML 1.0, production 2.
bool is_xml_character(std::string_view character) {
  if (character.size() == 1) {
    return static_cast<uint8_t>(character[0]) >= 0x20 || character == "\t" || character == "\n" ||
           character == "\r";
  }
  return character != "\uFFFE" && character != "\uFFFF";
}

std::string escaped_character(std::string_view character) {
  if (!is_xml_character(character)) return std::string(kReplacement);
  switch (character[0]) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&apos;";
    default:
      return std::string(character);
  }
}

// Source: WCAG 2.1, relative luminance.
double luminance(const Colour& colour) {
  const auto linear = [](uint8_t channel) {
    const double value = channel / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

}  // namespace

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

std::string to_string(const Colour& colour) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "#";
  for (const uint8_t channel : {colour.red, colour.green, colour.blue}) {
    text += kDigits[channel / 16];
    text += kDigits[channel % 16];
  }
  return text;
}

Colour lighter(const Colour& colour, double share) {
  const auto mixed = [share](uint8_t channel) {
    return static_cast<uint8_t>(std::lround(channel + (255.0 - channel) * share));
  };
  return {.red = mixed(colour.red), .green = mixed(colour.green), .blue = mixed(colour.blue)};
}

Colour text_colour_on(const Colour& background) {
  const double light = luminance(background);
  const double contrast_to_white = 1.05 / (light + 0.05);
  const double contrast_to_black = (light + 0.05) / 0.05;
  return contrast_to_white >= contrast_to_black ? Colour{.red = 255, .green = 255, .blue = 255} : Colour{};
}

std::string xml_escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    result += length == 0 ? std::string(kReplacement) : escaped_character(text.substr(0, length));
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return result;
}

std::string number_text(double value) {
  std::string text = fixed(value, 2);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

double text_width(std::string_view text, double font_size) {
  constexpr double kWidthOfCharacter = 0.6;
  const auto starts_character = [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U; };
  return kWidthOfCharacter * font_size *
         static_cast<double>(std::count_if(text.begin(), text.end(), starts_character));
}

double fitting_font_size(std::string_view text, const Box& box, double largest) {
  constexpr double kSmallestReadable = 5;
  constexpr double kSideGap = 1;
  const double by_width = (box.width - 2 * kSideGap) / text_width(text, 1);
  const double by_height = box.height * 0.75;
  const double size = std::floor(2 * std::min({by_width, by_height, largest})) / 2;
  return size >= kSmallestReadable ? size : 0;
}

std::string attribute(std::string_view name, std::string_view value) {
  return cat(" ", name, "=\"", xml_escaped(value), "\"");
}

std::string attribute(std::string_view name, double value) { return attribute(name, number_text(value)); }

std::string svg_document(double width, double height, std::string_view title, std::string_view body) {
  const Box page = {.width = std::ceil(width), .height = std::ceil(height)};
  return cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
             "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\"", attribute("width", page.width),
             attribute("height", page.height),
             attribute("viewBox", cat("0 0 ", number_text(page.width), " ", number_text(page.height))),
             attribute("font-family", kFonts), attribute("font-size", 12), attribute("fill", "#24292f"),
             ">\n<title>", xml_escaped(title), "</title>\n", rect_element(page, attribute("fill", "#ffffff")),
             body, "</svg>\n");
}

std::string rect_element(const Box& box, std::string_view attributes, std::string_view tip) {
  const std::string head = cat("<rect", attribute("x", box.x), attribute("y", box.y),
                               attribute("width", box.width), attribute("height", box.height), attributes);
  if (tip.empty()) return head + "/>\n";
  return cat(head, "><title>", xml_escaped(tip), "</title></rect>\n");
}

std::string text_element(double x, double y, std::string_view attributes, std::string_view text) {
  return cat("<text", attribute("x", x), attribute("y", y), attributes, ">", xml_escaped(text), "</text>\n");
}

std::string line_element(double x1, double y1, double x2, double y2, std::string_view attributes) {
  return cat("<line", attribute("x1", x1), attribute("y1", y1), attribute("x2", x2), attribute("y2", y2),
             attributes, "/>\n");
}

std::string group_element(std::string_view attributes, std::string_view elements) {
  return cat("<g", attributes, ">\n", elements, "</g>\n");
}

}  // namespace braid::report
