// SentencePiece models: reading, using and training them. Absent where built with
// BRAID_WITH_SENTENCEPIECE=OFF.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "braid/data/tokenizer/tokenizer.h"

namespace braid::data {

/// Whether this build has SentencePiece. Without it the functions below throw ConfigError with the option's
/// name.
bool sentencepiece_available();

/// kOn encodes word by word and remembers the ids of words, where the model allows it (see
/// tokenizer_words.h); the ids are those of kOff, which hands each text to SentencePiece whole.
enum class WordCache { kOn, kOff };

/// The tokenizer of a SentencePiece model (Llama's tokenizer.model). For a model with byte fallback, identity
/// normalisation and no dummy prefix, as `train_bpe` makes them, decode(encode(text)) is `text` for all valid
/// UTF-8. Throws ConfigError if there is no such file, DataError if it is not a SentencePiece model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file,
                                              WordCache cache = WordCache::kOn);

struct BpeOptions {
  int32_t pieces = 4096;
  int32_t threads = 1;
};

/// A serialised SentencePiece BPE model of exactly `options.pieces` pieces for text like `lines`: ids 0
/// <unk>, 1 <s>, 2 </s>, then
/// "\n", "\n\n" and "\t", the 256 bytes, the merges and the characters. Digits stay single; spaces are kept
/// as they are. `lines` should hold no newline and no tab (SentencePiece leaves out a line with a tab).
/// Deterministic. Throws ConfigError if `lines` gives too little text for so many pieces, saying how many it
/// is good for.
std::string train_bpe(const std::vector<std::string>& lines, const BpeOptions& options);

/// The fewest pieces that `train_bpe` accepts: those that every model has, and room for an alphabet.
inline constexpr int32_t kFewestPieces = 320;

}  // namespace braid::data
