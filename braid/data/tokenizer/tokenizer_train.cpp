#include "braid/data/tokenizer/tokenizer_train.h"

#include <span>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/mapped_file.h"
#include "braid/base/text.h"
#include "braid/data/text/text_source_utf8.h"
#include "braid/data/tokenizer/sentencepiece.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;

// Keeps every `stride`-th block of a text of unknown length, and drops every second one of these whenever
// they are twice the requested size. The sample is thus deterministic and spread evenly, in bounded memory.
class EvenSample {
 public:
  explicit EvenSample(int64_t wanted_bytes) : wanted_bytes_(wanted_bytes) {}

  void add(std::string_view text) {
    while (!text.empty()) {
      const size_t taken = block_end(text);
      current_.append(text.substr(0, taken));
      text.remove_prefix(taken);
      if (current_.size() >= kBlockBytes) end_block();
    }
    if (!current_.empty() && current_.back() != '\n') current_.push_back('\n');  // separates documents
  }

  std::vector<std::string> finish() {
    if (!current_.empty()) end_block();
    if (kept_bytes_ <= wanted_bytes_) return std::move(blocks_);
    std::vector<std::string> chosen;
    const double share = static_cast<double>(wanted_bytes_) / static_cast<double>(kept_bytes_);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto before = static_cast<int64_t>(static_cast<double>(i) * share);
      const auto after = static_cast<int64_t>(static_cast<double>(i + 1) * share);
      if (after > before || (chosen.empty() && i + 1 == blocks_.size()))
        chosen.push_back(std::move(blocks_[i]));
    }
    return chosen;
  }

 private:
  static constexpr size_t kBlockBytes = 4096;

  // The end of the current block in `text`: after the line that fills it, unless that line is long.
  size_t block_end(std::string_view text) const {
    const size_t missing = kBlockBytes - std::min(current_.size(), kBlockBytes - 1);
    if (text.size() <= missing) return text.size();
    const size_t newline = text.substr(0, 4 * kBlockBytes).find('\n', missing - 1);
    return newline != std::string_view::npos ? newline + 1 : utf8_prefix(text, 4 * kBlockBytes).size();
  }

  void end_block() {
    if (blocks_seen_++ % stride_ == 0) {
      kept_bytes_ += static_cast<int64_t>(current_.size());
      blocks_.emplace_back().swap(current_);
    }
    current_.clear();
    if (kept_bytes_ <= 2 * wanted_bytes_ || blocks_.size() < 2) return;
    stride_ *= 2;
    kept_bytes_ = 0;
    for (size_t i = 0; 2 * i < blocks_.size(); ++i) {
      if (i > 0) blocks_[i] = std::move(blocks_[2 * i]);
      kept_bytes_ += static_cast<int64_t>(blocks_[i].size());
    }
    blocks_.resize((blocks_.size() + 1) / 2);
  }

  int64_t wanted_bytes_;
  std::string current_;
  std::vector<std::string> blocks_;
  int64_t kept_bytes_ = 0;
  int64_t blocks_seen_ = 0;
  int64_t stride_ = 1;
};

void add_lines(std::string_view text, std::vector<std::string>& lines) {
  constexpr size_t kLongestLine = 4000;  // SentencePiece expects a line to be a sentence
  constexpr std::string_view kSpaceMark = "\xe2\x96\x81";
  while (!text.empty()) {
    std::string_view line = text.substr(0, std::min(text.find_first_of("\n\t\r"), text.find(kSpaceMark)));
    if (line.size() > kLongestLine) line = utf8_prefix(line, kLongestLine);
    if (!line.empty()) lines.emplace_back(line);
    text.remove_prefix(line.size());
    if (text.starts_with(kSpaceMark)) {
      text.remove_prefix(kSpaceMark.size());
    } else if (!text.empty() && (text[0] == '\n' || text[0] == '\t' || text[0] == '\r')) {
      text.remove_prefix(1);
    }
  }
}

fs::path output_file(const std::string& output) {
  require<ConfigError>(!output.empty(), "no output: pass a FILE.model, or a directory for tokenizer.model");
  const fs::path path(output);
  const bool names_a_file = path.extension() == ".model" && !fs::is_directory(path);
  fs::path file = names_a_file ? path : path / "tokenizer.model";
  std::error_code error;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  require<OutputError>(!error, "the directory ", file.parent_path().string(),
                       " cannot be created: ", error.message(), "; ", write_remedy(error.value()));
  return file;
}

void write_file(const fs::path& file, const std::string& bytes) {
  // The partial file is removed on every path on which it does not become the whole one.
  struct Partial {
    std::string path;
    ~Partial() {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  } const partial{file.string() + ".partial"};
  FileSink sink(partial.path);
  sink.write(std::as_bytes(std::span(bytes)));
  sink.close();
  std::error_code error;
  fs::rename(partial.path, file, error);
  require<OutputError>(!error, file.string(), ": cannot be created by renaming: ", error.message(), "; ",
                       write_remedy(error.value()));
}

}  // namespace

std::vector<std::string> sample_lines(TextSource& source, int64_t sample_bytes,
                                      const std::function<void(int64_t text_bytes)>& after_document) {
  EvenSample sample(sample_bytes);
  while (const auto document = source.next()) {
    sample.add(document->text);
    after_document(static_cast<int64_t>(document->text.size()));
  }
  std::vector<std::string> lines;
  for (const std::string& block : sample.finish()) add_lines(block, lines);
  return lines;
}

TrainTokenizerSummary train_sentencepiece(
    const TrainTokenizerOptions& options,
    const std::function<void(const TrainTokenizerProgress&)>& progress) {
  require<ConfigError>(options.sample_bytes >= 1, "sample_bytes must be >= 1, got ", options.sample_bytes);
  const auto start = std::chrono::steady_clock::now();
  if (!sentencepiece_available()) train_bpe({}, {});  // throws before anything is read
  TextSource source(options.text);
  TrainTokenizerSummary summary{.file = output_file(options.output), .text = {}};
  using Phase = TrainTokenizerProgress::Phase;
  const auto report = [&](Phase phase) {
    if (progress) progress({phase, source.done_bytes(), source.total_bytes()});
  };
  const auto lines = sample_lines(source, options.sample_bytes, [&](int64_t text_bytes) {
    ++summary.documents;
    summary.text_bytes += text_bytes;
    report(Phase::kReading);
  });
  for (const std::string& line : lines) summary.sample_bytes += static_cast<int64_t>(line.size());
  report(Phase::kTraining);
  write_file(summary.file, train_bpe(lines, {.pieces = options.pieces, .threads = options.threads}));
  summary.pieces = options.pieces;
  summary.text = source.counts();
  summary.elapsed = std::chrono::steady_clock::now() - start;
  return summary;
}

std::string to_text(const TrainTokenizerSummary& summary) {
  std::string text =
      cat(summary.file.string(), ": ", summary.pieces, " pieces, trained on ",
          bytes_text(static_cast<uint64_t>(summary.sample_bytes)), " of ",
          bytes_text(static_cast<uint64_t>(summary.text_bytes)), " of text in ",
          counted(summary.documents, "document"), ", ", fixed(summary.elapsed.count(), 1), " s\n");
  const std::string skipped = skipped_text(summary.text);
  if (!skipped.empty()) text += skipped + "\n";
  return text;
}

}  // namespace braid::data
