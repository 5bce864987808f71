// Cutting text into words that a subword model encodes one by one with the ids of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid::data {

/// Where text may be cut. A model joins neighbours only into pieces it knows; where no piece holds what
/// stands on both sides of a cut, next to each other, the cut changes nothing.
struct WordCuts {
  bool before_spaces = false;    // between any other character and a space
  bool before_newlines = false;  // between any other character and a newline
  bool after_newlines = false;   // between a newline and any other character
  bool operator==(const WordCuts&) const = default;
};

/// The cuts that no piece of `pieces` crosses. Spaces are written as U+2581 in pieces, as SentencePiece does.
WordCuts word_cuts(std::span<const std::string> pieces);

/// The end of the word that begins at `begin` (< text.size()): the next allowed cut, or the end of `text`.
size_t word_end(std::string_view text, size_t begin, WordCuts cuts);

/// What a SentencePiece model does to text before it looks for pieces.
struct Normalisation {
  bool maps_characters = false;  // a table of replacements (NFKC and the like)
  bool dummy_prefix = true;      // a space put before the text
  bool removes_spaces = true;    // leading, trailing and repeated spaces dropped
  bool escapes_spaces = true;    // spaces become U+2581
  bool operator==(const Normalisation&) const = default;
};

/// Reads the normaliser's settings out of a serialised ModelProto, or nothing if the bytes do not parse.
/// Source: sentencepiece_model.proto (ModelProto.normalizer_spec = 3); absent fields have the defaults above.
std::optional<Normalisation> read_normalisation(std::string_view model);

}  // namespace braid::data
