#include "braid/data/inspect.h"

#include <algorithm>
#include <bit>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/data/text/text_source_utf8.h"
#include "braid/data/tokenizer/tokenizer.h"
#include "braid/data/tokenizer_identity.h"

namespace braid::data {
namespace {

int64_t document_tokens(const IndexedReader& reader, int64_t document) {
  int64_t tokens = 0;
  for (int64_t s = reader.document_begin(document); s < reader.document_begin(document + 1); ++s) {
    tokens += reader.sequence_length(s);
  }
  return tokens;
}

// The bucket of `tokens`: 0 for none, else k for [2^(k-1), 2^k - 1].
int bucket_of(int64_t tokens) { return std::bit_width(static_cast<uint64_t>(tokens)); }

LengthBucket bucket(int k) {
  return {.from = k == 0 ? 0 : int64_t{1} << (k - 1), .to = (int64_t{1} << k) - 1};
}

void measure_lengths(const IndexedReader& reader, Inspection& found) {
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(reader.document_count()));
  for (int64_t d = 0; d < reader.document_count(); ++d) lengths.push_back(document_tokens(reader, d));
  if (lengths.empty()) return;
  const auto [shortest, longest] = std::ranges::minmax(lengths);
  found.shortest_tokens = shortest;
  found.longest_tokens = longest;
  found.mean_tokens = static_cast<double>(found.tokens) / static_cast<double>(lengths.size());
  for (int k = bucket_of(shortest); k <= bucket_of(longest); ++k) found.lengths.push_back(bucket(k));
  for (const int64_t tokens : lengths)
    ++found.lengths[static_cast<size_t>(bucket_of(tokens) - bucket_of(shortest))].documents;
  const auto middle = lengths.begin() + (static_cast<std::ptrdiff_t>(lengths.size()) - 1) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  found.median_tokens = *middle;
}

ShownDocument show(const IndexedReader& reader, const Tokenizer& tokenizer, int64_t document,
                   int64_t bytes_shown) {
  ShownDocument shown{.document = document, .tokens = document_tokens(reader, document), .text = ""};
  std::vector<int64_t> ids;
  for (int64_t s = reader.document_begin(document); s < reader.document_begin(document + 1); ++s) {
    // A visible token is at least one byte long; a few more tokens allow for invisible ones.
    const int64_t wanted =
        std::min<int64_t>(reader.sequence_length(s), bytes_shown + 8 - static_cast<int64_t>(ids.size()));
    const size_t had = ids.size();
    ids.resize(had + static_cast<size_t>(wanted));
    reader.read(s, 0, wanted, ids.data() + had);
  }
  std::string text = tokenizer.decode(ids);
  replace_invalid_utf8(text);  // a character may be split, or the tokens may be arbitrary bytes
  shown.text = utf8_prefix(text, static_cast<size_t>(bytes_shown));
  shown.whole = shown.text.size() == text.size() && static_cast<int64_t>(ids.size()) == shown.tokens;
  return shown;
}

std::string quoted(const std::string& text) {
  std::string out = "  | ";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\n  | ";
    } else {
      out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
    }
  }
  return out + "\n";
}

std::string bars(const std::vector<LengthBucket>& lengths) {
  constexpr int64_t kWidest = 40;
  int64_t most = 1;
  size_t label_width = 0, count_width = 0;
  const auto label = [](const LengthBucket& b) {
    return b.from == b.to ? cat(b.from) : cat(b.from, " to ", b.to);
  };
  for (const LengthBucket& b : lengths) {
    most = std::max(most, b.documents);
    label_width = std::max(label_width, label(b).size());
    count_width = std::max(count_width, std::to_string(b.documents).size());
  }
  std::string text;
  for (const LengthBucket& b : lengths) {
    const std::string name = label(b), count = std::to_string(b.documents);
    const auto marks =
        static_cast<size_t>((b.documents * kWidest + most - 1) / most);  // at least one unless empty
    text +=
        "  " + name + std::string(label_width - name.size() + 2 + count_width - count.size(), ' ') + count;
    if (marks > 0) text += "  " + std::string(marks, '#');
    text += "\n";
  }
  return text;
}

std::string id_text(const std::optional<int64_t>& id) { return id ? cat("id ", *id) : "nothing"; }

std::string record_text(const std::optional<DataRecord>& record) {
  if (!record) return "no .meta.json, as braid data prepare writes it: the tokenizer is not known\n";
  return cat(
      "tokenizer: ", to_text(record->tokenizer), "\ndocuments begin with ",
      id_text(record->add_bos ? record->tokenizer.bos_id : std::nullopt), " and end with ",
      id_text(record->eod_id), ", ",
      record->shuffle_seed ? cat("shuffled with seed ", *record->shuffle_seed) : "in the order of the input",
      "\n", bytes_text(static_cast<uint64_t>(record->text_bytes)), " of text",
      record->token_bytes.empty() ? "; bytes per token id are not known, as the tokenizer changes the text"
                                  : "",
      "\n");
}

}  // namespace

Inspection inspect(const InspectOptions& options) {
  require<ConfigError>(options.documents_shown >= 0, "documents_shown must be >= 0, got ",
                       options.documents_shown);
  require<ConfigError>(options.bytes_shown >= 1, "bytes_shown must be >= 1, got ", options.bytes_shown);
  const auto tokenizer = options.tokenizer ? make_tokenizer(*options.tokenizer) : nullptr;
  const IndexedReader reader(index_prefix(options.prefix));
  Inspection found{.prefix = reader.prefix(),
                   .token_type = reader.token_type(),
                   .sequences = reader.sequence_count(),
                   .documents = reader.document_count(),
                   .tokens = reader.token_count(),
                   .lengths = {},
                   .vocabulary_size = options.vocabulary_size,
                   .record = reader.record(),
                   .shown = {}};
  check_fingerprint(reader);
  if (tokenizer && found.record) require_tokenizer_of(*found.record, found.prefix, *tokenizer);
  if (!found.vocabulary_size && tokenizer) found.vocabulary_size = tokenizer->vocabulary_size();
  if (found.vocabulary_size) check_token_ids(reader, *found.vocabulary_size, options.threads);
  found.largest_token = find_max_token(reader, options.threads);
  measure_lengths(reader, found);
  if (!tokenizer) return found;
  for (int64_t d = 0; d < std::min(options.documents_shown, found.documents); ++d) {
    found.shown.push_back(show(reader, *tokenizer, d, options.bytes_shown));
  }
  return found;
}

std::string to_text(const Inspection& found) {
  const auto bin_bytes = static_cast<uint64_t>(found.tokens * bytes_of(found.token_type));
  std::string text = cat(found.prefix, ": ", counted(found.documents, "document"), ", ",
                         counted(found.sequences, "sequence"), ", ", counted(found.tokens, "token"), " of ",
                         name_of(found.token_type), " (", bytes_text(bin_bytes), ")\n");
  if (found.documents > 0) {
    text += cat("tokens per document: shortest ", found.shortest_tokens, ", median ", found.median_tokens,
                ", mean ", fixed(found.mean_tokens, 1), ", longest ", found.longest_tokens, "\n",
                bars(found.lengths));
  }
  if (found.largest_token >= 0) {
    text += cat(
        "largest token id ", found.largest_token,
        found.vocabulary_size ? cat(", within the vocabulary of ", *found.vocabulary_size) : std::string(),
        "\n");
  }
  text += record_text(found.record);
  for (const ShownDocument& shown : found.shown) {
    text += cat("document ", shown.document, ", ", counted(shown.tokens, "token"),
                shown.whole ? ":" : ", beginning:", "\n", quoted(shown.text));
  }
  return text;
}

}  // namespace braid::data
