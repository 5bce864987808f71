#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"
#include "braid/base/text.h"
#include "braid/data/tokenizer/sentencepiece.h"
#include "braid/data/tokenizer/tokenizer_words.h"

namespace braid::data {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

// A cache of the ids of words. Not thread-safe.
class WordIds {
 public:
  std::optional<std::span<const int32_t>> find(std::string_view word) const {
    const auto found = places_.find(word);
    if (found == places_.end()) return std::nullopt;
    return std::span(ids_).subspan(found->second.first, found->second.second);
  }

  void add(std::string_view word, std::span<const int> ids) {
    if (ids_.size() >= kMostIds) {
      places_.clear();
      ids_.clear();
    }
    places_.emplace(word, std::pair(static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(ids.size())));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  static constexpr size_t kMostIds = 1'000'000;  // about 40 MB including the words

  std::unordered_map<std::string, std::pair<uint32_t, uint32_t>, Hash, std::equal_to<>> places_;
  std::vector<int32_t> ids_;
};

// A pool with one WordIds per concurrent caller, so that no lock is held while encoding.
class WordIdsPool {
 public:
  std::unique_ptr<WordIds> take() {
    const std::scoped_lock lock(mutex_);
    if (free_.empty()) return std::make_unique<WordIds>();
    auto words = std::move(free_.back());
    free_.pop_back();
    return words;
  }

  void put_back(std::unique_ptr<WordIds> words) {
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(words));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordIds>> free_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::filesystem::path file, std::string_view model, WordCache cache)
      : file_(std::move(file)) {
    const auto status = processor_.LoadFromSerializedProto(model);
    require<DataError>(status.ok(), file_.string(),
                       " is not a SentencePiece model, or is damaged: copy or download it again");
    const auto normalisation = read_normalisation(model);
    if (!normalisation || normalisation->removes_spaces || !normalisation->escapes_spaces) return;
    dummy_prefix_ = normalisation->dummy_prefix;
    writes_marks_as_bytes_ = !dummy_prefix_ && processor_.IsByte(processor_.PieceToId("<0xE2>"));
    if (cache == WordCache::kOff || normalisation->maps_characters) return;
    std::vector<std::string> pieces;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) pieces.push_back(processor_.IdToPiece(id));
    cuts_ = word_cuts(pieces);
    // Each word gets its own dummy prefix, so it must begin with a space that the prefix replaces.
    if (dummy_prefix_) cuts_.before_newlines = cuts_.after_newlines = false;
    const int space = processor_.PieceToId(std::string(kSpaceMark));
    if (dummy_prefix_ && processor_.IsUnknown(space)) cuts_ = {};
    space_id_ = space;
  }

  int64_t vocabulary_size() const override { return processor_.GetPieceSize(); }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    ids.reserve(text.size() / 3);
    auto words = words_.take();
    while (writes_marks_as_bytes_) {
      // U+2581 itself would be read as a space; its bytes are not.
      const size_t mark = text.find(kSpaceMark);
      if (mark == std::string_view::npos) break;
      encode_segment(text.substr(0, mark), *words, ids);
      for (const char* byte : {"<0xE2>", "<0x96>", "<0x81>"}) ids.push_back(processor_.PieceToId(byte));
      text.remove_prefix(mark + kSpaceMark.size());
    }
    encode_segment(text, *words, ids);
    words_.put_back(std::move(words));
    return ids;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::vector<int> narrow_ids;
    narrow_ids.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      require<DataError>(0 <= ids[i] && ids[i] < vocabulary_size(), "token ", i, " has id ", ids[i], ", but ",
                         file_.string(), " has ids 0 to ", vocabulary_size() - 1,
                         ": these tokens come from another tokenizer");
      narrow_ids.push_back(static_cast<int>(ids[i]));
    }
    std::string text;
    const auto status = processor_.Decode(narrow_ids, &text);
    require<DataError>(status.ok(), file_.string(), " cannot decode ", counted(std::ssize(ids), "token"),
                       ": is this the tokenizer that made them?");
    return text;
  }

  std::optional<int64_t> bos_id() const override { return present(processor_.bos_id()); }
  std::optional<int64_t> eos_id() const override { return present(processor_.eos_id()); }
  std::vector<int32_t> token_bytes() const override {
    std::vector<int32_t> bytes;
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id) || processor_.IsUnused(id)) {
        bytes.push_back(0);
      } else if (processor_.IsByte(id)) {
        bytes.push_back(1);
      } else {
        bytes.push_back(static_cast<int32_t>(bytes_of_piece(processor_.IdToPiece(id))));
      }
    }
    return bytes;
  }
  int64_t bytes_before_text() const override { return dummy_prefix_ ? 1 : 0; }
  std::string name() const override { return "sentencepiece:" + file_.string(); }
  std::optional<std::filesystem::path> file() const override { return file_; }

 private:
  // A space is a mark of three bytes in pieces.
  static size_t bytes_of_piece(std::string_view piece) {
    size_t bytes = piece.size();
    for (size_t at = piece.find(kSpaceMark); at != std::string_view::npos;
         at = piece.find(kSpaceMark, at + kSpaceMark.size())) {
      bytes -= kSpaceMark.size() - 1;
    }
    return bytes;
  }

  static std::optional<int64_t> present(int id) { return id < 0 ? std::nullopt : std::optional<int64_t>(id); }

  void encode_segment(std::string_view text, WordIds& words, std::vector<int64_t>& ids) const {
    // SentencePiece treats U+2581 as a space, word_end does not.
    const WordCuts cuts = text.find(kSpaceMark) == std::string_view::npos ? cuts_ : WordCuts{};
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = word_end(text, begin, cuts);
      std::string_view word = text.substr(begin, end - begin);
      if (dummy_prefix_ && begin > 0) word.remove_prefix(1);
      encode_word(word, words, ids);
      begin = end;
    }
  }

  void encode_word(std::string_view word, WordIds& words, std::vector<int64_t>& ids) const {
    constexpr size_t kLongestCached = 64;
    if (word.empty()) {  // SentencePiece adds no dummy prefix to an empty text
      ids.push_back(space_id_);
      return;
    }
    const bool is_cached = word.size() <= kLongestCached && cuts_ != WordCuts{};
    if (is_cached) {
      if (const auto found = words.find(word)) {
        ids.insert(ids.end(), found->begin(), found->end());
        return;
      }
    }
    std::vector<int> word_ids;
    const auto status = processor_.Encode(word, &word_ids);
    require<DataError>(status.ok(), file_.string(), " cannot encode text: the model is damaged");
    if (is_cached) words.add(word, word_ids);
    ids.insert(ids.end(), word_ids.begin(), word_ids.end());
  }

  std::filesystem::path file_;
  sentencepiece::SentencePieceProcessor processor_;
  WordCuts cuts_;
  bool dummy_prefix_ = true;
  bool writes_marks_as_bytes_ = false;
  int64_t space_id_ = 0;
  mutable WordIdsPool words_;
};

class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t next_ = 0;
};

// SentencePiece's own message, without the source location.
std::string reason(const sentencepiece::util::Status& status) {
  const std::string text = status.ToString();
  const size_t end_of_condition = text.rfind(']');
  return std::string(trim(end_of_condition == std::string::npos ? text : text.substr(end_of_condition + 1)));
}

}  // namespace

bool sentencepiece_available() { return true; }

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file, WordCache cache) {
  require<ConfigError>(std::filesystem::is_regular_file(file), "tokenizer ", file.string(),
                       ": no such file; `braid data tokenizer` trains one");
  reject_foreign_file(file, FileFormat::kSentencePiece);
  std::ifstream in(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  require<DataError>(in.good(), file.string(), " cannot be read: are its permissions insufficient?");
  return std::make_unique<SentencePieceTokenizer>(file, bytes.str(), cache);
}

std::string train_bpe(const std::vector<std::string>& lines, const BpeOptions& options) {
  require<ConfigError>(options.pieces >= kFewestPieces, "a tokenizer needs at least ", kFewestPieces,
                       " pieces (256 of them are the bytes), got ", options.pieces);
  require<ConfigError>(options.threads >= 1, "training a tokenizer needs at least 1 thread, got ",
                       options.threads);
  require<ConfigError>(!lines.empty(),
                       "there is no text to train a tokenizer on: every input is empty or was skipped");
  LineIterator iterator(lines);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", "bpe"},
       {"vocab_size", std::to_string(options.pieces)},
       {"num_threads", std::to_string(options.threads)},
       {"unk_id", "0"},
       {"bos_id", "1"},
       {"eos_id", "2"},
       {"pad_id", "-1"},
       {"byte_fallback", "true"},
       {"split_digits", "true"},
       {"character_coverage", "0.9999"},
       {"user_defined_symbols", "\n,\n\n,\t"},
       // With these five, every text round-trips exactly and can be encoded in parts.
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       {"split_by_whitespace", "true"},
       {"allow_whitespace_only_pieces", "true"},
       {"max_sentence_length", "100000000"},  // in bytes; longer ones are skipped silently
       {"minloglevel", "2"}},
      &iterator, &model);
  if (status.ok()) return model;
  const std::string why = reason(status);
  const size_t limit = why.find("<= ");
  if (why.find("too high") != std::string::npos && limit != std::string::npos) {
    throw ConfigError(cat("the text is too short for ", options.pieces, " pieces: it supports at most ",
                          trim(why.substr(limit + 3, why.find('.', limit) - limit - 3)),
                          "; use more text or fewer pieces"));
  }
  throw ConfigError(cat("a tokenizer of ", options.pieces,
                        " pieces cannot be trained: ", why.empty() ? "SentencePiece gives no reason" : why));
}

}  // namespace braid::data
