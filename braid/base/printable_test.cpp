#include "braid/base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace braid {
namespace {

using namespace std::string_literals;

TEST(Printable, PlainTextStaysAsItIs) {
  for (const char* text : {"", "model-00001.safetensors", "Grüße, 世界 🙂", "\"quoted\" \\ 'text'"}) {
    EXPECT_EQ(escaped(text), text);
    EXPECT_EQ(escaped_lines(text), text);
  }
}

TEST(Printable, WhatATerminalActsOnIsMadeVisible) {
  EXPECT_EQ(escaped("\x1b[2Jred\a\r"), "\\x1b[2Jred\\x07\\x0d");
  EXPECT_EQ(escaped("a\0b"s), "a\\x00b");
  EXPECT_EQ(escaped("\x7f"), "\\x7f");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\u{009b}31m");  // a control sequence of one character
  EXPECT_EQ(escaped("\xe2\x80\xae"
                    "cod.exe"),
            "\\u{202e}cod.exe");  // written from right to left
}

TEST(Printable, BreaksAreKeptInTextOfSeveralLinesOnly) {
  EXPECT_EQ(escaped("a\n\tb"), "a\\n\\tb");
  EXPECT_EQ(escaped_lines("a\n\tb\x1b"), "a\n\tb\\x1b");
}

TEST(Printable, BytesThatAreNotUtf8AreMadeVisible) {
  EXPECT_EQ(escaped("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(escaped("\xe4\xb8"), "\\xe4\\xb8");                    // ends inside a character
  EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST(Printable, TextForATerminalHasAReplacementForEachInvalidByte) {
  EXPECT_EQ(displayable("Grü\n\t\x1b[1m"), "Grü\n\t\\x1b[1m");
  EXPECT_EQ(displayable("a\xe4\xb8z"), "a\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST(Printable, QuotesTheBeginningOfLongText) {
  EXPECT_EQ(printable("a\x1b"), "\"a\\x1b\"");
  EXPECT_EQ(printable(std::string(121, 'x')), '"' + std::string(120, 'x') + "...\"");
  EXPECT_EQ(printable(std::string(120, 'x')), '"' + std::string(120, 'x') + '"');
  // Cut between two characters.
  EXPECT_EQ(printable(std::string(119, 'x') + "ü!"), '"' + std::string(119, 'x') + "...\"");
}

}  // namespace
}  // namespace braid
