#include "braid/data/tokenizer/tokenizer_words.h"

#include "braid/data/tokenizer/wire_reader.h"

namespace braid::data {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

std::optional<Normalisation> parse_normalizer(std::string_view bytes) {
  Normalisation found;
  wire::Reader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    if (field->number == 2) found.maps_characters = !field->bytes.empty();
    if (field->number == 3) found.dummy_prefix = field->value != 0;
    if (field->number == 4) found.removes_spaces = field->value != 0;
    if (field->number == 5) found.escapes_spaces = field->value != 0;
  }
  return found;
}

}  // namespace

WordCuts word_cuts(std::span<const std::string> pieces) {
  WordCuts cuts{true, true, true};
  for (const std::string& piece : pieces) {
    for (size_t at = piece.find(kSpaceMark); at != std::string::npos; at = piece.find(kSpaceMark, at + 1)) {
      const bool follows_space = at >= kSpaceMark.size() &&
                                 piece.compare(at - kSpaceMark.size(), kSpaceMark.size(), kSpaceMark) == 0;
      if (at > 0 && !follows_space) cuts.before_spaces = false;
    }
    for (size_t at = piece.find('\n'); at != std::string::npos; at = piece.find('\n', at + 1)) {
      if (at > 0 && piece[at - 1] != '\n') cuts.before_newlines = false;
      if (at + 1 < piece.size() && piece[at + 1] != '\n') cuts.after_newlines = false;
    }
  }
  return cuts;
}

size_t word_end(std::string_view text, size_t begin, WordCuts cuts) {
  for (size_t at = begin + 1; at < text.size(); ++at) {
    const char before = text[at - 1];
    const char after = text[at];
    if (before == after) continue;
    if ((cuts.before_spaces && after == ' ') || (cuts.before_newlines && after == '\n') ||
        (cuts.after_newlines && before == '\n')) {
      return at;
    }
  }
  return text.size();
}

std::optional<Normalisation> read_normalisation(std::string_view model) {
  constexpr uint64_t kNormalizerSpec = 3;
  Normalisation found;
  wire::Reader reader(model);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    if (field->number != kNormalizerSpec) continue;
    const auto parsed = parse_normalizer(field->bytes);
    if (!parsed) return std::nullopt;
    found = *parsed;
  }
  return found;
}

}  // namespace braid::data
