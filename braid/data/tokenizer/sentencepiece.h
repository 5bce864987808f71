// Reading, using and training SentencePiece models. Unavailable in builds with BRAID_WITH_SENTENCEPIECE=OFF.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "braid/data/tokenizer/tokenizer.h"

namespace braid::data {

/// Whether this build has SentencePiece. Otherwise the functions below throw ConfigError naming the option.
bool sentencepiece_available();

/// kOn encodes word by word and caches the ids of words if the model allows it (see tokenizer_words.h); the
/// ids are the same as with kOff, which passes each whole text to SentencePiece.
enum class WordCache { kOn, kOff };

/// The tokenizer of a SentencePiece model (Llama's tokenizer.model). For a model with byte fallback, identity
/// normalisation and no dummy prefix, as trained by `train_bpe`, decode(encode(text)) equals `text` for all
/// valid UTF-8. Throws ConfigError if the file does not exist, DataError if it is not a SentencePiece model.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file,
                                              WordCache cache = WordCache::kOn);

struct BpeOptions {
  int32_t pieces = 4096;
  int32_t threads = 1;
};

/// A serialised SentencePiece BPE model with exactly `options.pieces` pieces for text like `lines`: ids 0
/// <unk>, 1 <s>, 2 </s>, then "\n", "\n\n" and "\t", the 256 bytes, the merges and the characters. Digits
/// stay single; spaces are preserved. `lines` should not contain newlines or tabs (SentencePiece skips lines
/// with tabs). Deterministic. Throws ConfigError with the possible number of pieces if there is too little
/// text.
std::string train_bpe(const std::vector<std::string>& lines, const BpeOptions& options);

/// The smallest number of pieces that `train_bpe` accepts: those of every model, plus room for an alphabet.
inline constexpr int32_t kFewestPieces = 320;

}  // namespace braid::data
