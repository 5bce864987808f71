#include "braid/data/tokenizer_identity.h"

#include <filesystem>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/fingerprint.h"
#include "braid/base/text.h"
#include "braid/data/index/input.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;

// A model's directory has the same tokenizer in two forms.
bool lies_beside(const Tokenizer& tokenizer, const TokenizerIdentity& json) {
  if (json.kind != "tokenizer.json" || !tokenizer.file()) return false;
  const fs::path file = tokenizer.file()->parent_path() / "tokenizer.json";
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && file_fingerprint(file.string()) == json.fingerprint;
}

}  // namespace

TokenizerIdentity identity_of(const Tokenizer& tokenizer) {
  const std::optional<fs::path> file = tokenizer.file();
  return {.kind = file ? "sentencepiece" : tokenizer.name(),
          .fingerprint = file ? file_fingerprint(file->string()) : "",
          .vocabulary_size = tokenizer.vocabulary_size(),
          .bos_id = tokenizer.bos_id(),
          .eos_id = tokenizer.eos_id()};
}

void require_tokenizer_of(const DataRecord& record, std::string_view prefix, const Tokenizer& tokenizer) {
  const TokenizerIdentity identity = identity_of(tokenizer);
  require<ConfigError>(is_same(record.tokenizer, identity) || lies_beside(tokenizer, record.tokenizer),
                       prefix, " was made with the tokenizer ", to_text(record.tokenizer), ", but ",
                       tokenizer.name(), " is ", to_text(identity),
                       ": pass the tokenizer that made the data, or prepare the text "
                       "with this one");
}

std::vector<std::string> check_tokenizer_of_input(std::string_view input, const Tokenizer* tokenizer) {
  add_bos_of(input);  // throws where files differ
  std::optional<DataRecord> first;
  std::string first_prefix, without;
  int64_t count_without = 0;
  for (const WeightedPrefix& file : parse_input(input)) {
    const std::optional<DataRecord> record = read_record(file.prefix);
    if (!record) {
      if (count_without++ == 0) without = file.prefix;
      continue;
    }
    if (tokenizer != nullptr) require_tokenizer_of(*record, file.prefix, *tokenizer);
    require<ConfigError>(!first || is_same(first->tokenizer, record->tokenizer), "input_dir: ", first_prefix,
                         " was made with the tokenizer ", first ? to_text(first->tokenizer) : "", ", but ",
                         file.prefix, " with ", to_text(record->tokenizer),
                         ": a model has one vocabulary; prepare both with the same tokenizer");
    if (!first) first_prefix = file.prefix;
    first = record;
  }
  if (count_without == 0) return {};
  const std::string others = count_without > 1 ? cat(" and ", count_without - 1, " more") : "";
  return {cat("data: ", without, others,
              ": no .meta.json, as braid data prepare writes it, so which tokenizer ",
              "made it is not known")};
}

}  // namespace braid::data
