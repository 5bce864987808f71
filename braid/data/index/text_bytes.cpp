#include "braid/data/index/text_bytes.h"

#include "braid/base/error.h"

namespace braid::data {

TextBytes::TextBytes(const DataRecord& record)
    : token_bytes_(record.token_bytes), extra_bytes_(record.extra_bytes_per_document) {
  const std::optional<int64_t> before = record.add_bos ? record.tokenizer.bos_id : record.eod_id;
  if (before) before_text_ = *before;
}

std::optional<TextBytes> TextBytes::of(std::span<const IndexedReader> files) {
  std::optional<TextBytes> first;
  const DataRecord* record = nullptr;
  for (const IndexedReader& file : files) {
    if (!file.record() || file.record()->token_bytes.empty()) return std::nullopt;
    const TextBytes bytes(*file.record());
    if (bytes.extra_bytes_ > 0 && bytes.before_text_ < 0) return std::nullopt;
    if (record != nullptr && (!is_same(record->tokenizer, file.record()->tokenizer) ||
                              first->before_text_ != bytes.before_text_)) {
      return std::nullopt;
    }
    record = &*file.record();
    first = bytes;
  }
  return first;
}

int64_t TextBytes::count(const at::Tensor& tokens, const at::Tensor& labels) const {
  require<InternalError>(tokens.sizes() == labels.sizes(), "tokens and labels of different shapes");
  const at::Tensor dense_tokens = tokens.contiguous(), dense_labels = labels.contiguous();
  const auto* token = dense_tokens.const_data_ptr<int64_t>();
  const auto* label = dense_labels.const_data_ptr<int64_t>();
  const auto ids = static_cast<int64_t>(token_bytes_.size());
  int64_t bytes = 0;
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] < 0 || label[i] >= ids) continue;
    const int64_t of_label = token_bytes_[static_cast<size_t>(label[i])];
    bytes += of_label;
    if (token[i] == before_text_ && of_label > 0) bytes -= extra_bytes_;
  }
  return bytes;
}

}  // namespace braid::data
