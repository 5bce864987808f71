#include "braid/report/svg.h"

#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/report/xml_reader.h"

namespace braid::report {
namespace {

TEST(XmlReader, AcceptsOnlyWellFormedText) {
  const auto elements =
      XmlReader("<?xml version=\"1.0\"?>\n<a b=\"1 &lt; 2\"><c/>&amp;<d>x</d> y</a>\n").read();
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0].attributes.at("b"), "1 < 2");
  EXPECT_EQ(elements[0].text, "& y");
  EXPECT_EQ(elements[2].text, "x");
  EXPECT_EQ(elements[2].parent, 0);
  for (const std::string_view bad :
       {"", "a", "<a>", "<a></b>", "<a><b></a></b>", "<a/><b/>", "<a/>text", "<a b=1/>", "<a b='1'/>",
        "<a b=\"1/>", "<a b=\"1\" b=\"2\"/>", "<a b=\"1\"c=\"2\"/>", "<a b=\"<\"/>", "<a>&</a>",
        "<a>&no;</a>", "<a>></a>", "<a>\x01</a>", "<1/>"}) {
    EXPECT_THROW(XmlReader(bad).read(), DataError) << bad;
  }
}

TEST(XmlEscaped, MarkupAndCharactersThatXmlDoesNotAllow) {
  EXPECT_EQ(xml_escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;");
  EXPECT_EQ(xml_escaped("\u00b5 \u20ac \U0001F600\t\n"), "\u00b5 \u20ac \U0001F600\t\n");
  EXPECT_EQ(xml_escaped(std::string_view("\0\x1b", 2)), "\uFFFD\uFFFD");
  EXPECT_EQ(xml_escaped("\uFFFE"), "\uFFFD");
  EXPECT_EQ(xml_escaped("\x80y\xff"), "\uFFFDy\uFFFD") << "no lead bytes";
  EXPECT_EQ(xml_escaped("\xc3"), "\uFFFD") << "truncated";
  EXPECT_EQ(xml_escaped("\xc0\xaf"), "\uFFFD\uFFFD") << "overlong";
  EXPECT_EQ(xml_escaped("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(xml_escaped("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "beyond Unicode";
}

TEST(NumberText, TwoDecimalsNoExponent) {
  EXPECT_EQ(number_text(3), "3");
  EXPECT_EQ(number_text(100), "100");
  EXPECT_EQ(number_text(0.5), "0.5");
  EXPECT_EQ(number_text(12.345678), "12.35");
  EXPECT_EQ(number_text(-1.25), "-1.25");
  EXPECT_EQ(number_text(-0.001), "0");
  EXPECT_EQ(number_text(1e-300), "0");
  EXPECT_EQ(number_text(1e15), "1000000000000000");
}

TEST(Colours, HexShadesAndContrast) {
  const Colour black, white = {.red = 255, .green = 255, .blue = 255};
  EXPECT_EQ(to_string(Colour{.red = 0, .green = 0x72, .blue = 0xb2}), "#0072b2");
  EXPECT_EQ(lighter(black, 0.2), (Colour{.red = 51, .green = 51, .blue = 51}));
  EXPECT_EQ(lighter(black, 1), white);
  EXPECT_EQ(lighter({.red = 1, .green = 2, .blue = 3}, 0), (Colour{.red = 1, .green = 2, .blue = 3}));
  EXPECT_EQ(text_colour_on(white), black);
  EXPECT_EQ(text_colour_on(black), white);
  EXPECT_EQ(text_colour_on({.red = 0x2f, .green = 0x4f, .blue = 0xb0}), white);
  EXPECT_EQ(text_colour_on({.red = 0xe6, .green = 0x9f, .blue = 0x00}), black);
}

TEST(Overlap, EdgesMayTouch) {
  const Box box = {.x = 10, .y = 10, .width = 10, .height = 10};
  EXPECT_TRUE(overlap(box, {.x = 19, .y = 19, .width = 5, .height = 5}));
  EXPECT_TRUE(overlap({.x = 12, .y = 12, .width = 1, .height = 1}, box));
  EXPECT_FALSE(overlap(box, {.x = 20, .y = 10, .width = 5, .height = 10}));
  EXPECT_FALSE(overlap(box, {.x = 10, .y = 5, .width = 10, .height = 5}));
}

TEST(FittingFontSize, FitsBothWaysOrIsZero) {
  const Box wide = {.width = 100, .height = 20};
  EXPECT_EQ(fitting_font_size("12", wide, 12), 12);
  EXPECT_EQ(fitting_font_size("12", {.width = 100, .height = 8}, 12), 6);
  EXPECT_EQ(fitting_font_size("12", {.width = 6, .height = 20}, 12), 0);
  for (double width = 1; width < 40; width += 0.25) {
    const double font = fitting_font_size("123", {.width = width, .height = 20}, 12);
    EXPECT_LT(text_width("123", font), width);
    EXPECT_TRUE(font == 0 || font >= 5) << font;
  }
  EXPECT_EQ(text_width("\u00b5s", 10), text_width("us", 10)) << "characters count, not bytes";
}

TEST(Elements, EscapeTheirText) {
  const std::string svg = svg_document(
      10.2, 20, "<&>",
      rect_element({.x = 1, .y = 2, .width = 3, .height = 4.126}, attribute("fill", "\"red\""), "a < b") +
          rect_element({}, {}) + group_element(attribute("fill", "g<"), text_element(1, 2, {}, "x & y")) +
          line_element(1, 2, 3, 4, {}));
  const auto elements = XmlReader(svg).read();
  EXPECT_EQ(elements[0].attributes.at("viewBox"), "0 0 11 20");
  EXPECT_EQ(elements[1].text, "<&>");
  EXPECT_EQ(elements[2].attributes.at("fill"), "#ffffff");
  EXPECT_EQ(elements[2].number("width"), 11);
  EXPECT_EQ(elements[3].attributes.at("fill"), "\"red\"");
  EXPECT_EQ(elements[3].number("height"), 4.13);
  EXPECT_EQ(elements[4].text, "a < b");
  EXPECT_EQ(elements[6].attributes.at("fill"), "g<");
  EXPECT_EQ(elements[7].text, "x & y");
  EXPECT_EQ(elements[7].parent, 6);
  EXPECT_EQ(elements[8].number("y2"), 4);
}

}  // namespace
}  // namespace braid::report
