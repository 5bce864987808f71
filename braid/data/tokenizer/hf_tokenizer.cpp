#include "braid/data/tokenizer/hf_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/data/tokenizer/tokenizer_words.h"
#include "braid/data/tokenizer/wire_reader.h"

namespace braid::data {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kKindKey = "braid_tokenizer";  // transformers keeps it, and ignores it
constexpr const char* kFastClass = "PreTrainedTokenizerFast";

// A piece of a SentencePiece model. Source: sentencepiece_model.proto (ModelProto.pieces = 1).
struct Piece {
  enum Type : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  std::string text;
  float score = 0;
  uint64_t type = kNormal;
};

struct PieceModel {
  std::vector<Piece> pieces;
  bool is_bpe = false;
  bool spaces_end_words = false;
};

std::optional<Piece> parse_piece(std::string_view bytes) {
  Piece piece;
  wire::Reader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2 && field->bytes.size() == sizeof(float))
      std::memcpy(&piece.score, field->bytes.data(), sizeof(float));
    if (field->number == 3) piece.type = field->value;
  }
  return piece;
}

// Whether the fields could be read.
bool parse_trainer(std::string_view bytes, PieceModel& model) {
  constexpr uint64_t kModelType = 3, kSpacesAsSuffix = 24, kBpe = 2;
  wire::Reader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return false;
    if (field->number == kModelType) model.is_bpe = field->value == kBpe;
    if (field->number == kSpacesAsSuffix) model.spaces_end_words = field->value != 0;
  }
  return true;
}

std::optional<PieceModel> parse_model(std::string_view bytes) {
  PieceModel model;
  wire::Reader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    if (field->number == 1) {
      auto piece = parse_piece(field->bytes);
      if (!piece) return std::nullopt;
      model.pieces.push_back(*std::move(piece));
    } else if (field->number == 2 && !parse_trainer(field->bytes, model)) {
      return std::nullopt;
    }
  }
  return model;
}

ordered_json added_token(int64_t id, std::string_view text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

ordered_json replacing(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

ordered_json sequence_of(const char* member, std::vector<ordered_json> items) {
  return {{"type", "Sequence"}, {member, std::move(items)}};
}

// Puts an id before each text.
ordered_json beginning_with(int64_t id, std::string_view text) {
  const ordered_json token = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) -> ordered_json {
    return {{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const ordered_json second = {{"SpecialToken", {{"id", text}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({token, sequence("A", 0)})},
          {"pair", ordered_json::array({token, sequence("A", 0), second, sequence("B", 1)})},
          {"special_tokens",
           {{std::string(text), {{"id", text}, {"ids", {id}}, {"tokens", ordered_json::array({text})}}}}}};
}

ordered_json bpe_model(const ordered_json& vocabulary, const ordered_json& merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", merges}};
}

// SentencePiece merges any two neighbours that make a piece, the one with the highest score first and the
// leftmost among equals; tokenizers has a list of pairs in the order of their merging.
ordered_json merges_of(const PieceModel& model) {
  std::unordered_map<std::string_view, size_t> normal;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    if (model.pieces[i].type == Piece::kNormal) normal.emplace(model.pieces[i].text, i);
  }
  std::vector<size_t> order;
  for (const auto& [text, index] : normal) order.push_back(index);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::pair(-model.pieces[a].score, a) < std::pair(-model.pieces[b].score, b);
  });
  ordered_json merges = ordered_json::array();
  for (const size_t index : order) {
    const std::string_view text = model.pieces[index].text;
    for (size_t cut = utf8_character_bytes(text, 0); cut > 0 && cut < text.size();) {
      if (normal.contains(text.substr(0, cut)) && normal.contains(text.substr(cut)))
        merges.push_back({text.substr(0, cut), text.substr(cut)});
      const size_t next = utf8_character_bytes(text, cut);
      if (next == 0) break;
      cut += next;
    }
  }
  return merges;
}

// Whether tokenizers can do what the model does.
bool is_expressible(const PieceModel& model, const Normalisation& normalisation) {
  const auto count = [&](Piece::Type type) {
    return std::ranges::count_if(model.pieces, [&](const Piece& piece) { return piece.type == type; });
  };
  // A dummy prefix comes before the text once here, but before each part between user-defined pieces there.
  const bool one_prefix = !normalisation.dummy_prefix || count(Piece::kUserDefined) == 0;
  return model.is_bpe && !model.spaces_end_words && count(Piece::kByte) == 256 &&
         count(Piece::kUnused) == 0 && !normalisation.maps_characters && !normalisation.removes_spaces &&
         normalisation.escapes_spaces && one_prefix;
}

std::string tokenizer_json(const PieceModel& model, const Normalisation& normalisation,
                           const HfTokenizerOptions& options) {
  ordered_json added = ordered_json::array();
  ordered_json vocabulary = ordered_json::object();
  ordered_json bpe;
  std::string unknown;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    vocabulary[piece.text] = id;
    if (piece.type == Piece::kUnknown) unknown = piece.text;
    const bool special = piece.type == Piece::kUnknown || piece.type == Piece::kControl;
    if (special || piece.type == Piece::kUserDefined)
      added.push_back(added_token(static_cast<int64_t>(id), piece.text, special));
  }
  bpe = bpe_model(vocabulary, merges_of(model));
  if (!unknown.empty()) bpe["unk_token"] = unknown;
  bpe["fuse_unk"] = true;
  bpe["byte_fallback"] = true;
  ordered_json normalizer = replacing(" ", kSpaceMark);
  std::vector<ordered_json> decoders = {
      replacing(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (normalisation.dummy_prefix) {
    normalizer = sequence_of("normalizers", {{{"type", "Prepend"}, {"prepend", kSpaceMark}}, normalizer});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  ordered_json post_processor;
  if (options.add_bos && options.bos_id) {
    post_processor =
        beginning_with(*options.bos_id, model.pieces.at(static_cast<size_t>(*options.bos_id)).text);
  }
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added},
                             {"normalizer", normalizer},
                             {"pre_tokenizer", nullptr},
                             {"post_processor", post_processor},
                             {"decoder", sequence_of("decoders", std::move(decoders))},
                             {"model", bpe}};
  return file.dump() + "\n";
}

// The character that stands for a byte in tokenizers' byte-level vocabularies: itself if it is printable in
// Latin-1, else one from U+0100 on. Source: Radford et al. 2019 (GPT-2), its released encoder.
std::string byte_character(int byte) {
  const auto is_printable = [](int b) {
    return ('!' <= b && b <= '~') || (0xa1 <= b && b <= 0xac) || (0xae <= b && b <= 0xff);
  };
  int code = byte;
  if (!is_printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += is_printable(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// `special`: the texts of the special ids, by transformers' names ("bos_token").
HfTokenizerFile config_file(const char* tokenizer_class, const ordered_json& special,
                            const HfTokenizerOptions& options) {
  ordered_json config = {{"tokenizer_class", tokenizer_class},
                         {"add_bos_token", options.add_bos && options.bos_id.has_value()},
                         {"add_eos_token", false},
                         {"clean_up_tokenization_spaces", false}};
  if (options.max_length > 0) config["model_max_length"] = options.max_length;
  config.update(special);
  return {kConfigFile, config.dump(2) + "\n"};
}

}  // namespace

std::vector<HfTokenizerFile> byte_tokenizer_files(const HfTokenizerOptions& options) {
  constexpr const char* kEnd = "</s>";
  ordered_json vocabulary = ordered_json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary[byte_character(byte)] = byte;
  ordered_json added = ordered_json::array();
  ordered_json special = {{kKindKey, "byte"}};
  if (options.eos_id) {
    added.push_back(added_token(*options.eos_id, kEnd, true));
    special["eos_token"] = kEnd;
  }
  const ordered_json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added},
                             {"normalizer", nullptr},
                             {"pre_tokenizer", bytes},
                             {"post_processor", nullptr},
                             {"decoder", bytes},
                             {"model", bpe_model(vocabulary, ordered_json::array())}};
  return {{"tokenizer.json", file.dump() + "\n"}, config_file(kFastClass, special, options)};
}

bool is_byte_tokenizer(const std::filesystem::path& directory) {
  std::ifstream in(directory / kConfigFile);
  const ordered_json config = ordered_json::parse(in, nullptr, false);
  return config.is_object() && config.contains(kKindKey) && config[kKindKey] == "byte";
}

std::vector<HfTokenizerFile> sentencepiece_tokenizer_files(std::string_view bytes,
                                                           const HfTokenizerOptions& options) {
  const auto model = parse_model(bytes);
  const auto normalisation = read_normalisation(bytes);
  require<DataError>(model && normalisation, "the tokenizer's SentencePiece model cannot be parsed");
  const auto text_of = [&](std::optional<int64_t> id) -> std::string {
    return id && *id < std::ssize(model->pieces) ? model->pieces[static_cast<size_t>(*id)].text : "";
  };
  ordered_json special = ordered_json::object();
  if (options.bos_id) special["bos_token"] = text_of(options.bos_id);
  if (options.eos_id) special["eos_token"] = text_of(options.eos_id);
  for (const Piece& piece : model->pieces) {
    if (piece.type == Piece::kUnknown) special["unk_token"] = piece.text;
  }
  if (!is_expressible(*model, *normalisation)) {
    special["legacy"] = false;
    return {config_file("LlamaTokenizer", special, options)};
  }
  return {{"tokenizer.json", tokenizer_json(*model, *normalisation, options)},
          config_file(kFastClass, special, options)};
}

}  // namespace braid::data
