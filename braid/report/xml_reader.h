// For tests: a small strict XML reader, which proves that drawings are well formed and lets tests measure
// them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "braid/base/error.h"

namespace braid::report {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  ///< directly inside it
  int parent = -1;   ///< its index; -1 for the root

  double number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }
};

/// Supports what drawings use: elements, attributes, text, the five predefined entities, an XML declaration.
/// Everything else throws DataError.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  /// In document order.
  std::vector<XmlElement> read() {
    if (take("<?xml ")) skip_past("?>");
    skip_space();
    expect("<");
    read_element(-1);
    skip_space();
    if (!text_.empty()) fail("text after the root element");
    return elements_;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw DataError(cat(what, " at \"", text_.substr(0, 40), "\""));
  }

  bool take(std::string_view token) {
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail(cat("expected \"", token, "\""));
  }

  void skip_past(std::string_view token) {
    const size_t at = text_.find(token);
    if (at == std::string_view::npos) fail(cat("no \"", token, "\""));
    text_.remove_prefix(at + token.size());
  }

  bool skip_space() {
    const size_t before = text_.size();
    while (!text_.empty() && std::string_view(" \n").find(text_[0]) != std::string_view::npos)
      take_character();
    return text_.size() < before;
  }

  char take_character() {
    const char character = text_[0];
    text_.remove_prefix(1);
    return character;
  }

  std::string read_name() {
    std::string name;
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto is_later = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; };
    while (!text_.empty() && (name.empty() ? is_letter(text_[0]) : is_later(text_[0])))
      name += take_character();
    if (name.empty()) fail("expected a name");
    return name;
  }

  // Up to `end`, which stays.
  std::string read_text(char end) {
    static const std::map<std::string_view, char> kEntities = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    std::string result;
    while (!text_.empty() && text_[0] != end) {
      if (text_[0] == '<' || text_[0] == '>') fail("a bare angle bracket");
      if (static_cast<unsigned char>(text_[0]) < 0x20 && text_[0] != '\n') fail("a control character");
      if (text_[0] != '&') {
        result += take_character();
        continue;
      }
      const auto entity = kEntities.find(text_.substr(0, text_.find(';') + 1));
      if (entity == kEntities.end()) fail("an unknown entity");
      expect(entity->first);
      result += entity->second;
    }
    return result;
  }

  // Its "<" is taken already.
  void read_element(int parent) {
    const size_t index = elements_.size();
    elements_.push_back({.name = read_name(), .parent = parent});
    while (skip_space() && !text_.starts_with("/") && !text_.starts_with(">")) {
      const std::string name = read_name();
      expect("=\"");
      if (!elements_[index].attributes.emplace(name, read_text('"')).second) fail("a second " + name);
      expect("\"");
    }
    if (take("/>")) return;
    expect(">");
    while (true) {
      elements_[index].text += read_text('<');
      if (take("</")) break;
      expect("<");
      read_element(static_cast<int>(index));
    }
    expect(elements_[index].name + ">");
  }

  std::string_view text_;
  std::vector<XmlElement> elements_;
};

/// A box with a tooltip.
struct TippedBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  std::string tip;
};

/// All of them, in document order.
inline std::vector<TippedBox> tipped_boxes(const std::vector<XmlElement>& elements) {
  std::vector<TippedBox> boxes;
  for (const XmlElement& element : elements) {
    if (element.name != "title" || element.parent < 0) continue;
    const XmlElement& owner = elements[static_cast<size_t>(element.parent)];
    if (owner.name != "rect") continue;
    boxes.push_back({.x = owner.number("x"),
                     .y = owner.number("y"),
                     .width = owner.number("width"),
                     .height = owner.number("height"),
                     .tip = element.text});
  }
  return boxes;
}

/// The contents of all `text` elements, in document order.
inline std::vector<std::string> texts_of(const std::vector<XmlElement>& elements) {
  std::vector<std::string> texts;
  for (const XmlElement& element : elements) {
    if (element.name == "text") texts.push_back(element.text);
  }
  return texts;
}

}  // namespace braid::report
