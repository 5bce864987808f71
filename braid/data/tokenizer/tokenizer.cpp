#include "braid/data/tokenizer/tokenizer.h"

#include "braid/base/error.h"
#include "braid/data/tokenizer/hf_tokenizer.h"
#include "braid/data/tokenizer/sentencepiece.h"

namespace braid::data {
namespace {

constexpr int64_t kEndOfDocument = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary_size() const override { return kEndOfDocument + 1; }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    ids.reserve(text.size());
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      require<DataError>(0 <= ids[i] && ids[i] <= kEndOfDocument, "token ", i, " has id ", ids[i],
                         ", but the byte tokenizer has ids 0 to ", kEndOfDocument,
                         ": these tokens come from another tokenizer");
      if (ids[i] != kEndOfDocument) text.push_back(static_cast<char>(ids[i]));
    }
    return text;
  }

  std::optional<int64_t> bos_id() const override { return std::nullopt; }
  std::optional<int64_t> eos_id() const override { return kEndOfDocument; }
  std::vector<int32_t> token_bytes() const override {
    std::vector<int32_t> bytes(kEndOfDocument + 1, 1);
    bytes.back() = 0;
    return bytes;
  }
  int64_t bytes_before_text() const override { return 0; }
  std::string name() const override { return "byte"; }
  std::optional<std::filesystem::path> file() const override { return std::nullopt; }
};

constexpr std::string_view kForms =
    "pass 'byte', 'sentencepiece:FILE', a FILE ending in .model, or a directory with "
    "tokenizer.model";

std::unique_ptr<Tokenizer> from_directory(const std::filesystem::path& directory) {
  const auto model = directory / "tokenizer.model";
  if (std::filesystem::is_regular_file(model)) return load_sentencepiece(model);
  if (is_byte_tokenizer(directory)) return std::make_unique<ByteTokenizer>();
  require<ConfigError>(!std::filesystem::exists(directory / "tokenizer.json"), "tokenizer ",
                       directory.string(),
                       " has tokenizer.json but no tokenizer.model: a tokenizer.json is read by "
                       "tools/hf_tokenize.py, which writes the same .bin and .idx files");
  throw ConfigError(
      cat("tokenizer ", directory.string(), " is a directory without tokenizer.model; ", kForms));
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec) {
  constexpr std::string_view kPrefix = "sentencepiece:";
  if (spec == "byte") return std::make_unique<ByteTokenizer>();
  require<ConfigError>(!spec.empty(), "the tokenizer is empty; ", kForms);
  const bool prefixed = spec.starts_with(kPrefix);
  const std::filesystem::path path(prefixed ? spec.substr(kPrefix.size()) : spec);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return from_directory(path);
  if (prefixed || path.extension() == ".model") return load_sentencepiece(path);
  require<ConfigError>(
      path.filename() != "tokenizer.json", "tokenizer ", spec,
      ": a tokenizer.json is read by tools/hf_tokenize.py, which writes the same .bin and .idx files");
  throw ConfigError(cat("tokenizer '", spec, "' is unknown, and no directory has that name; ", kForms));
}

}  // namespace braid::data
