// Splitting text into words whose separate encodings concatenate to the encoding of the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid::data {

/// Positions where text may be cut. A model merges neighbours only into known pieces; if no piece contains
/// the two characters around a cut, the cut does not change the encoding.
struct WordCuts {
  bool before_spaces = false;    // between any other character and a space
  bool before_newlines = false;  // between any other character and a newline
  bool after_newlines = false;   // between a newline and any other character
  bool operator==(const WordCuts&) const = default;
};

/// The cuts that no piece of `pieces` crosses. Spaces are written as U+2581 in pieces, as in SentencePiece.
WordCuts word_cuts(std::span<const std::string> pieces);

/// The end of the word that begins at `begin` (< text.size()): the next allowed cut, or the end of `text`.
size_t word_end(std::string_view text, size_t begin, WordCuts cuts);

/// The normalisation of text by a SentencePiece model before encoding.
struct Normalisation {
  bool maps_characters = false;  // a table of replacements (NFKC and the like)
  bool dummy_prefix = true;      // a space prepended to the text
  bool removes_spaces = true;    // leading, trailing and repeated spaces dropped
  bool escapes_spaces = true;    // spaces become U+2581
  bool operator==(const Normalisation&) const = default;
};

/// The normaliser's settings in a serialised ModelProto, or nothing if the bytes cannot be parsed.
/// Source: sentencepiece_model.proto (ModelProto.normalizer_spec = 3); absent fields have the defaults above.
std::optional<Normalisation> read_normalisation(std::string_view model);

}  // namespace braid::data
