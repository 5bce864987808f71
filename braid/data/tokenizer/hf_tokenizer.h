// The files by which transformers' AutoTokenizer gives the very ids of a tokenizer: tokenizer.json, in the
// format of Hugging Face's tokenizers, and tokenizer_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::data {

struct HfTokenizerFile {
  std::string name;
  std::string text;

  bool operator==(const HfTokenizerFile&) const = default;
};

struct HfTokenizerOptions {
  /// Ids, as the tokenizer has them.
  std::optional<int64_t> bos_id{};
  std::optional<int64_t> eos_id{};
  /// Whether texts begin with bos_id, as the documents did in training.
  bool add_bos = false;
  /// The model's positions.
  int64_t max_length = 0;
};

/// Of the byte tokenizer. tokenizer_config.json says so, for is_byte_tokenizer.
std::vector<HfTokenizerFile> byte_tokenizer_files(const HfTokenizerOptions& options);

/// Whether the files in `directory` are those of the byte tokenizer.
bool is_byte_tokenizer(const std::filesystem::path& directory);

/// Of a serialised SentencePiece model. tokenizer.json is among them where it gives the same ids: for BPE
/// models with byte fallback that leave text unchanged but for spaces, as `train_bpe` makes them and as
/// Llama's are. Of other models transformers converts tokenizer.model itself. Texts with the names of special
/// ids ("<s>") or with U+2581 in them have other ids in transformers. Throws DataError if the model cannot be
/// parsed.
std::vector<HfTokenizerFile> sentencepiece_tokenizer_files(std::string_view model,
                                                           const HfTokenizerOptions& options);

}  // namespace braid::data
