// Tokenization of text into the token files that training reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "braid/data/index/indexed_file.h"
#include "braid/data/text/text_source.h"

namespace braid::data {

enum class Existing { kReject, kReplace };
enum class DocumentBegin { kNone, kBosToken };
enum class DocumentEnd { kEosToken, kNone };

struct PrepareOptions {
  TextOptions text{};
  std::string output_prefix{};  // of <output_prefix>.bin, .idx and .meta.json; their directory is created
  std::string tokenizer{};      // for make_tokenizer
  DocumentBegin document_begin = DocumentBegin::kNone;
  DocumentEnd document_end = DocumentEnd::kEosToken;
  // Documents are written in the order of numpy.random.RandomState(seed).permutation; absent: in that of the
  // input.
  std::optional<int64_t> shuffle_seed{};
  Existing existing = Existing::kReject;
  int32_t workers = 1;  // tokenizing threads
};

struct PrepareProgress {
  enum class Phase { kReading, kShuffling, kDone } phase = Phase::kReading;
  double shuffled = 0;     // the share of the documents, in kShuffling
  int64_t done_bytes = 0;  // of the input files on disk
  int64_t total_bytes = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
};

struct PrepareSummary {
  int64_t documents = 0;        // written
  int64_t empty_documents = 0;  // skipped
  int64_t tokens = 0;
  int64_t text_bytes = 0;  // of the documents in UTF-8
  TokenType token_type = TokenType::kU16;
  int64_t vocabulary_size = 0;
  std::optional<int64_t> shuffle_seed{};
  TextCounts text{};
  std::chrono::duration<double> elapsed{};
};

/// Tokenizes every document of `options.text` into one sequence and one document of the token files, and
/// writes their record beside them. The files do not depend on `workers`. `progress` is called from the
/// calling thread, several times per second and at the end. Any error, including an exception from
/// `progress`, leaves no files. Throws ConfigError for invalid options (existing files, no text, a requested
/// token at the beginning or the end of documents that the tokenizer does not have), DataError if input
/// cannot be read or output cannot be written.
PrepareSummary prepare(const PrepareOptions& options,
                       const std::function<void(const PrepareProgress&)>& progress = {});

/// A readable summary: what was written, the throughput, what was skipped.
std::string to_text(const PrepareSummary& summary);

}  // namespace braid::data
