// From text to the token files that training reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "braid/data/index/indexed_file.h"
#include "braid/data/text/text_source.h"

namespace braid::data {

enum class Existing { kRefuse, kReplace };
enum class DocumentEnd { kEosToken, kNone };

struct PrepareOptions {
  TextOptions text{};
  std::string output_prefix{};  // of <output_prefix>.bin and .idx; their folder is created
  std::string tokenizer{};      // as make_tokenizer takes it
  DocumentEnd document_end = DocumentEnd::kEosToken;
  Existing existing = Existing::kRefuse;
  int32_t workers = 1;  // threads that tokenise
};

struct PrepareProgress {
  int64_t done_bytes = 0;  // of the input files on disk
  int64_t total_bytes = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
};

struct PrepareSummary {
  int64_t documents = 0;        // written
  int64_t empty_documents = 0;  // left out
  int64_t tokens = 0;
  int64_t text_bytes = 0;  // of the documents as UTF-8
  TokenType token_type = TokenType::kU16;
  int64_t vocabulary_size = 0;
  TextCounts text{};
  std::chrono::duration<double> elapsed{};
};

/// Tokenises every document of `options.text` into one sequence and one document of the token files. The
/// files do not depend on `workers`. `progress` is called from the calling thread, several times a second and
/// at the end; an exception from it ends the work and leaves no file, as every error does. Throws ConfigError
/// for options that cannot be honoured (files that exist, no text, a tokenizer without an id for the end of
/// a document where one is asked for), DataError for input that cannot be read and output that cannot be
/// written.
PrepareSummary prepare(const PrepareOptions& options,
                       const std::function<void(const PrepareProgress&)>& progress = {});

/// A few lines for people: what was written, how fast, what was left out.
std::string to_text(const PrepareSummary& summary);

}  // namespace braid::data
