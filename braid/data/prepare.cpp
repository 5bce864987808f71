#include "braid/data/prepare.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/data/tokenizer/tokenizer.h"
#include "braid/data/tokenizer_identity.h"

namespace braid::data {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Batch {
  std::vector<std::string> texts;
  int64_t done_bytes = 0;  // of the input, including this batch
};

struct Encoded {
  std::vector<std::vector<int64_t>> documents;
  int64_t done_bytes = 0;
};

// Threads that run tasks in submission order. The destructor drops tasks not yet started and joins.
class Workers {
 public:
  explicit Workers(int32_t count) {
    try {
      for (int32_t i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {  // the destructor of what is not whole does not run
      stop();
      throw;
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { stop(); }

  std::future<Encoded> submit(std::packaged_task<Encoded()> task) {
    auto result = task.get_future();
    {
      const std::scoped_lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return result;
  }

 private:
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      tasks_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run() {
    while (true) {
      std::packaged_task<Encoded()> task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<Encoded()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

void check_output(const PrepareOptions& options, const std::string& prefix) {
  require<ConfigError>(!prefix.empty() && !prefix.ends_with('/') && !fs::is_directory(prefix),
                       "output_prefix must name files, as in out/corpus "
                       "for out/corpus.bin and out/corpus.idx; got '",
                       options.output_prefix, "'");
  for (const char* suffix : {".bin", ".idx", ".meta.json"}) {
    require<ConfigError>(options.existing == Existing::kReplace || !fs::exists(prefix + suffix), prefix,
                         suffix, " exists: choose another output_prefix, or replace it with --overwrite 1");
  }
  const fs::path directory = fs::path(prefix).parent_path();
  std::error_code error;
  if (!directory.empty()) fs::create_directories(directory, error);
  require<OutputError>(!error, "the directory ", directory.string(),
                       " of output_prefix cannot be created: ", error.message(), "; ",
                       write_remedy(error.value()));
}

// Documents are passed to a worker in batches of about this size.
constexpr int64_t kBatchBytes = 256 * 1024;

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const std::function<void(const PrepareProgress&)>& progress)
      : options_(options),
        progress_(progress),
        tokenizer_(make_tokenizer(options.tokenizer)),
        source_(options.text) {
    summary_.vocabulary_size = tokenizer_->vocabulary_size();
    summary_.token_type = token_type_for_vocabulary(summary_.vocabulary_size);
    if (options.document_end == DocumentEnd::kEosToken) end_ = tokenizer_->eos_id();
    require<ConfigError>(options.document_end == DocumentEnd::kNone || end_, "tokenizer ", tokenizer_->name(),
                         " has no end-of-document token: pass --append_eod 0");
    if (options.document_begin == DocumentBegin::kBosToken) begin_ = tokenizer_->bos_id();
    require<ConfigError>(options.document_begin == DocumentBegin::kNone || begin_, "tokenizer ",
                         tokenizer_->name(), " has no beginning-of-text token: pass --prepend_bos 0");
    require<ConfigError>(
        !options.shuffle_seed || (0 <= *options.shuffle_seed && *options.shuffle_seed < 1LL << 32),
        "the seed of shuffle must be in [0, 2^32), got ", options.shuffle_seed.value_or(0));
    summary_.shuffle_seed = options.shuffle_seed;
  }

  PrepareSummary run(const std::string& prefix) {
    const auto start = Clock::now();
    IndexedWriter writer(prefix, summary_.token_type);
    Workers workers(options_.workers);
    std::deque<std::future<Encoded>> pending;
    for (auto batch = read_batch(); !batch.texts.empty(); batch = read_batch()) {
      pending.push_back(workers.submit(
          std::packaged_task<Encoded()>([this, waiting = std::move(batch)] { return encode(waiting); })));
      // Enough that no worker waits for a slow document, few enough to fit in memory.
      if (pending.size() > 4 * static_cast<size_t>(options_.workers)) write_front(pending, writer);
    }
    while (!pending.empty()) write_front(pending, writer);
    summary_.text = source_.counts();
    const std::string skipped = skipped_text(summary_.text);
    require<ConfigError>(
        summary_.documents > 0, "the input has no text: ", counted(summary_.text.files, "file"), " read, ",
        counted(summary_.empty_documents, "empty document"), skipped.empty() ? "" : "; " + skipped);
    done_bytes_ = source_.done_bytes();
    if (options_.shuffle_seed) {
      writer.shuffle_documents(*options_.shuffle_seed, [this](double share) {
        report({.phase = PrepareProgress::Phase::kShuffling, .shuffled = share});
      });
    }
    writer.finish(record());
    report({.phase = PrepareProgress::Phase::kDone, .shuffled = 1});
    summary_.elapsed = Clock::now() - start;
    return summary_;
  }

 private:
  Batch read_batch() {
    Batch batch;
    int64_t bytes = 0;
    while (bytes < kBatchBytes) {
      auto document = source_.next();
      if (!document) break;
      if (document->text.empty()) {
        ++summary_.empty_documents;
        continue;
      }
      bytes += static_cast<int64_t>(document->text.size());
      batch.texts.push_back(std::move(document->text));
    }
    summary_.text_bytes += bytes;
    batch.done_bytes = source_.done_bytes();
    return batch;
  }

  // Of the files that are being written, without what the writer knows.
  DataRecord record() const {
    return {.tokenizer = identity_of(*tokenizer_),
            .add_bos = begin_.has_value(),
            .eod_id = end_,
            .text_bytes = summary_.text_bytes,
            .shuffle_seed = options_.shuffle_seed,
            .token_bytes = changes_text_ ? std::vector<int32_t>() : token_bytes_,
            .extra_bytes_per_document = changes_text_ ? 0 : extra_bytes_};
  }

  // Runs on the workers: accesses only immutable state and one flag.
  Encoded encode(const Batch& batch) const {
    Encoded encoded{.documents = {}, .done_bytes = batch.done_bytes};
    for (const std::string& text : batch.texts) {
      auto ids = tokenizer_->encode(text);
      int64_t bytes = 0;
      for (const int64_t id : ids) bytes += token_bytes_[static_cast<size_t>(id)];
      if (bytes != static_cast<int64_t>(text.size()) + extra_bytes_) changes_text_ = true;
      if (begin_) ids.insert(ids.begin(), *begin_);
      if (end_) ids.push_back(*end_);
      encoded.documents.push_back(std::move(ids));
    }
    return encoded;
  }

  void write_front(std::deque<std::future<Encoded>>& pending, IndexedWriter& writer) {
    const Encoded encoded = pending.front().get();
    pending.pop_front();
    for (const auto& ids : encoded.documents) {
      writer.add_sequence(ids);
      writer.end_document();
      ++summary_.documents;
      summary_.tokens += static_cast<int64_t>(ids.size());
    }
    done_bytes_ = encoded.done_bytes;
    constexpr std::chrono::milliseconds kBetweenReports{100};
    if (Clock::now() - last_report_ >= kBetweenReports) report();
  }

  void report(PrepareProgress progress = {}) {
    last_report_ = Clock::now();
    if (!progress_) return;
    progress.done_bytes = done_bytes_;
    progress.total_bytes = source_.total_bytes();
    progress.documents = summary_.documents;
    progress.tokens = summary_.tokens;
    progress_(progress);
  }

  const PrepareOptions& options_;
  const std::function<void(const PrepareProgress&)>& progress_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TextSource source_;
  std::vector<int32_t> token_bytes_ = tokenizer_->token_bytes();
  int64_t extra_bytes_ = tokenizer_->bytes_before_text();
  mutable std::atomic<bool> changes_text_ = false;  // in some document the bytes of its ids are not its size
  std::optional<int64_t> begin_;
  std::optional<int64_t> end_;
  PrepareSummary summary_;
  int64_t done_bytes_ = 0;
  Clock::time_point last_report_;
};

}  // namespace

PrepareSummary prepare(const PrepareOptions& options,
                       const std::function<void(const PrepareProgress&)>& progress) {
  require<ConfigError>(options.workers >= 1, "workers must be >= 1, got ", options.workers);
  Preparation preparation(options, progress);
  const std::string prefix = index_prefix(options.output_prefix);
  check_output(options, prefix);
  return preparation.run(prefix);
}

std::string to_text(const PrepareSummary& summary) {
  const double seconds = std::max(summary.elapsed.count(), 1e-9);
  const auto text_bytes = static_cast<double>(summary.text_bytes);
  std::string text =
      cat(counted(summary.documents, "document"), ", ", counted(summary.tokens, "token"), " (",
          name_of(summary.token_type), "), ",
          fixed(text_bytes / static_cast<double>(std::max<int64_t>(summary.tokens, 1)), 2),
          " bytes per token\n", bytes_text(static_cast<uint64_t>(summary.text_bytes)), " of text in ",
          fixed(seconds, 1), " s, ", bytes_text(static_cast<uint64_t>(text_bytes / seconds)), "/s\n");
  const std::string skipped = skipped_text(summary.text);
  if (!skipped.empty()) text += skipped + "\n";
  if (summary.empty_documents > 0)
    text += cat("skipped: ", counted(summary.empty_documents, "empty document"), "\n");
  text += summary.shuffle_seed ? cat("documents are shuffled with seed ", *summary.shuffle_seed,
                                     "; --shuffle 0 keeps their order\n")
                               : "documents are in the order of the input\n";
  if (summary.text.invalid_utf8 > 0)
    text += cat("not UTF-8: ", counted(summary.text.invalid_utf8, "place"), ", replaced by U+FFFD\n");
  return text;
}

}  // namespace braid::data
