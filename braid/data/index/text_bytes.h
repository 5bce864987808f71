// How much text tokens stand for, by the record of the files they come from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "braid/data/index/indexed_file.h"

namespace braid::data {

/// Counts the bytes of text that labels stand for, exactly: each label's, by its id; a space that the
/// tokenizer puts before a document is not text, nor are the ids that begin and end documents.
class TextBytes {
 public:
  /// Nothing if a file has no record, if its tokenizer changes the text, if files come from different
  /// tokenizers, or if neither a BOS nor an end-of-document id tells where documents begin and that matters.
  static std::optional<TextBytes> of(std::span<const IndexedReader> files);

  /// The bytes of the labels of a batch, `tokens` and `labels` of the same shape; labels of kIgnoredLabel,
  /// and ids that the tokenizer does not have, count nothing.
  int64_t count(const at::Tensor& tokens, const at::Tensor& labels) const;

 private:
  explicit TextBytes(const DataRecord& record);

  std::vector<int32_t> token_bytes_;
  int64_t extra_bytes_ = 0;   // of a document's first label
  int64_t before_text_ = -1;  // the id before it
};

}  // namespace braid::data
