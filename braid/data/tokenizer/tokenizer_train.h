// A SentencePiece tokenizer made from one's own text.
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
  std::string
      output;  // FILE.model, or a directory in which tokenizer.model is written; created with its folders
  int32_t pieces = 4096;
  int64_t sample_bytes = 10'000'000;  // text that is learnt from; more is slower and changes little
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
  int64_t sample_bytes = 0;  // learnt from
  TextCounts text{};
  std::chrono::duration<double> elapsed{};
};

/// Lines of text for training a tokenizer, about `sample_bytes` of them, spread evenly over everything that
/// `source` gives and the same every time. Lines are cut at newlines, tabs, carriage returns and U+2581, and
/// after 4000 bytes; empty ones are left out. `after_document` is called with the size of each document's
/// text.
std::vector<std::string> sample_lines(TextSource& source, int64_t sample_bytes,
                                      const std::function<void(int64_t text_bytes)>& after_document);

/// Trains a BPE model with byte fallback (see train_bpe) on a sample of the text and writes it, through a
/// temporary file, replacing what was there. `progress` is called from the calling thread: while reading,
/// then once as training begins. Throws ConfigError for options that cannot be honoured (too little text for
/// so many pieces, a build without SentencePiece), DataError for input that cannot be read and output that
/// cannot be written.
TrainTokenizerSummary train_sentencepiece(
    const TrainTokenizerOptions& options,
    const std::function<void(const TrainTokenizerProgress&)>& progress = {});

/// A line or two for people.
std::string to_text(const TrainTokenizerSummary& summary);

}  // namespace braid::data
