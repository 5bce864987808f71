// Training of a SentencePiece tokenizer on the user's text.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "braid/data/text/text_source.h"

namespace braid::data {

struct TrainTokenizerOptions {
  TextOptions text{};
  // FILE.model, or a directory for tokenizer.model; parent directories are created.
  std::string output;
  int32_t pieces = 4096;
  int64_t sample_bytes = 10'000'000;  // of text to train on; more is slower and changes little
  int32_t threads = 1;
};

struct TrainTokenizerProgress {
  enum class Phase { kReading, kTraining } phase = Phase::kReading;
  int64_t done_bytes = 0;  // of the input files on disk
  int64_t total_bytes = 0;
};

struct TrainTokenizerSummary {
  std::filesystem::path file{};
  int64_t pieces = 0;
  int64_t documents = 0;     // read
  int64_t text_bytes = 0;    // read
  int64_t sample_bytes = 0;  // trained on
  TextCounts text{};
  std::chrono::duration<double> elapsed{};
};

/// About `sample_bytes` of lines for training a tokenizer, spread evenly over the whole of `source` and
/// deterministic. Lines are split at newlines, tabs, carriage returns and U+2581, and after 4000 bytes; empty
/// lines are dropped. `after_document` is called with the size of each document's text.
std::vector<std::string> sample_lines(TextSource& source, int64_t sample_bytes,
                                      const std::function<void(int64_t text_bytes)>& after_document);

/// Trains a BPE model with byte fallback (see train_bpe) on a sample of the text and writes it through a
/// temporary file, replacing an existing file. `progress` is called from the calling thread while reading and
/// once when training begins. Throws ConfigError for invalid options (too little text for the number of
/// pieces, a build without SentencePiece), DataError if input cannot be read or output cannot be written.
TrainTokenizerSummary train_sentencepiece(
    const TrainTokenizerOptions& options,
    const std::function<void(const TrainTokenizerProgress&)>& progress = {});

/// A readable summary in one or two lines.
std::string to_text(const TrainTokenizerSummary& summary);

}  // namespace braid::data
