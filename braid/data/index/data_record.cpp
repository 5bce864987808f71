#include "braid/data/index/data_record.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/text.h"
#include "braid/data/index/input.h"

namespace braid::data {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "braid token files";
constexpr int64_t kVersion = 1;

ordered_json optional_json(const std::optional<int64_t>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

// One file's keys, with its name for errors.
class Fields {
 public:
  Fields(const std::string& path, const ordered_json& object) : path_(path), object_(object) {
    require<DataError>(object.is_object(), path, ": is not a JSON object; prepare the text again");
  }

  const ordered_json& at(const char* key) const {
    const auto found = object_.find(key);
    require<DataError>(found != object_.end(), path_, ": has no \"", key, "\"; prepare the text again");
    return *found;
  }

  template <typename T>
  T get(const char* key) const {
    try {
      return at(key).get<T>();
    } catch (const nlohmann::json::exception&) {
      throw DataError(cat(path_, ": \"", key, "\" is ", at(key).dump().substr(0, 80),
                          ", a value of the wrong type; prepare the text again"));
    }
  }

  /// A count or an id.
  int64_t number(const char* key) const {
    require<DataError>(at(key).is_number_integer() && at(key).get<int64_t>() >= 0, path_, ": \"", key,
                       "\" must be a whole number of at least 0, is ", at(key).dump().substr(0, 80),
                       "; prepare the text again");
    return at(key).get<int64_t>();
  }

  std::optional<int64_t> optional_number(const char* key) const {
    return at(key).is_null() ? std::nullopt : std::optional(number(key));
  }

 private:
  const std::string& path_;
  const ordered_json& object_;
};

ordered_json parse_file(const std::string& path) {
  reject_foreign_file(path, FileFormat::kJson);
  std::ifstream in(path, std::ios::binary);
  require<DataError>(in.good(), path, " cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  require<DataError>(!in.bad(), path, " cannot be read");
  try {
    return ordered_json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw DataError(cat(path, ", byte ", error.byte, ": is not JSON; prepare the text again"));
  }
}

}  // namespace

std::string to_text(const TokenizerIdentity& tokenizer) {
  if (tokenizer.fingerprint.empty()) return tokenizer.kind;
  constexpr size_t kShown = 19;
  return cat(tokenizer.kind, " ", tokenizer.fingerprint.substr(0, kShown), " (",
             counted(tokenizer.vocabulary_size, "id"), ")");
}

bool is_same(const TokenizerIdentity& a, const TokenizerIdentity& b) {
  return a.kind == b.kind && a.fingerprint == b.fingerprint;
}

std::string record_path(std::string_view prefix) { return std::string(prefix) + ".meta.json"; }

std::string to_json(const DataRecord& record) {
  const TokenizerIdentity& tokenizer = record.tokenizer;
  const ordered_json object = {
      {"format", kFormat},
      {"version", kVersion},
      {"tokenizer",
       {{"kind", tokenizer.kind},
        {"fingerprint", tokenizer.fingerprint},
        {"vocabulary_size", tokenizer.vocabulary_size},
        {"bos_id", optional_json(tokenizer.bos_id)},
        {"eos_id", optional_json(tokenizer.eos_id)}}},
      {"add_bos", record.add_bos},
      {"eod_id", optional_json(record.eod_id)},
      {"documents", record.documents},
      {"tokens", record.tokens},
      {"text_bytes", record.text_bytes},
      {"shuffle_seed", optional_json(record.shuffle_seed)},
      {"bin_fingerprint", record.bin_fingerprint},
      {"extra_bytes_per_document", record.extra_bytes_per_document},
      {"token_bytes", record.token_bytes},
  };
  // One key a line, but the long list on a single one.
  std::string text = "{";
  for (const auto& [key, value] : object.items()) {
    text += cat(text.size() > 1 ? ",\n " : "\n ", ordered_json(key).dump(), ": ", value.dump());
  }
  return text + "\n}\n";
}

std::optional<DataRecord> read_record(std::string_view prefix) {
  const std::string path = record_path(prefix);
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return std::nullopt;
  const ordered_json object = parse_file(path);
  const Fields fields(path, object);
  require<DataError>(fields.at("format") == kFormat, path,
                     ": is not braid's record of token files; move it elsewhere");
  require<DataError>(fields.at("version") == kVersion, path, ": has version ", fields.at("version").dump(),
                     ", but this braid knows ", kVersion,
                     "; use the braid that wrote it, or prepare the text again");
  const Fields tokenizer(path, fields.at("tokenizer"));
  DataRecord record = {
      .tokenizer = {.kind = tokenizer.get<std::string>("kind"),
                    .fingerprint = tokenizer.get<std::string>("fingerprint"),
                    .vocabulary_size = tokenizer.number("vocabulary_size"),
                    .bos_id = tokenizer.optional_number("bos_id"),
                    .eos_id = tokenizer.optional_number("eos_id")},
      .add_bos = fields.get<bool>("add_bos"),
      .eod_id = fields.optional_number("eod_id"),
      .documents = fields.number("documents"),
      .tokens = fields.number("tokens"),
      .text_bytes = fields.number("text_bytes"),
      .shuffle_seed = fields.optional_number("shuffle_seed"),
      .bin_fingerprint = fields.get<std::string>("bin_fingerprint"),
      .token_bytes = fields.get<std::vector<int32_t>>("token_bytes"),
      .extra_bytes_per_document = fields.number("extra_bytes_per_document"),
  };
  const auto ids = static_cast<int64_t>(record.token_bytes.size());
  require<DataError>(ids == 0 || ids == record.tokenizer.vocabulary_size, path, ": \"token_bytes\" has ",
                     counted(ids, "number"), ", but the vocabulary has ", record.tokenizer.vocabulary_size,
                     "; prepare the text again");
  require<DataError>(!record.add_bos || record.tokenizer.bos_id, path,
                     ": \"add_bos\" is true, but the tokenizer has no \"bos_id\"; prepare the text again");
  return record;
}

std::optional<bool> add_bos_of(std::string_view input) {
  std::optional<bool> add_bos;
  std::string first;
  for (const WeightedPrefix& file : parse_input(input)) {
    const std::optional<DataRecord> record = read_record(file.prefix);
    if (!record) continue;
    require<ConfigError>(!add_bos || *add_bos == record->add_bos, "input_dir: documents of ",
                         *add_bos ? first : file.prefix, " begin with a BOS id, those of ",
                         *add_bos ? file.prefix : first, " do not; prepare both with the same --prepend_bos");
    if (!add_bos) first = file.prefix;
    add_bos = record->add_bos;
  }
  return add_bos;
}

}  // namespace braid::data
