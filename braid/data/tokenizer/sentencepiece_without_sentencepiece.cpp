#include "braid/data/tokenizer/sentencepiece.h"
#include "braid/base/error.h"

namespace braid::data {
namespace {

[[noreturn]] void throw_unavailable(const std::string& what) {
  throw ConfigError(cat(
      what,
      " needs SentencePiece, which this build does not include: install libsentencepiece-dev and build with "
      "BRAID_WITH_SENTENCEPIECE=ON, or use the tokenizer 'byte'"));
}

}  // namespace

bool sentencepiece_available() { return false; }

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file, WordCache) {
  throw_unavailable(cat("tokenizer ", file.string()));
}

std::string train_bpe(const std::vector<std::string>&, const BpeOptions&) {
  throw_unavailable("training a tokenizer");
}

}  // namespace braid::data
