// Whether a tokenizer is the one that made a pair of token files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "braid/data/index/data_record.h"
#include "braid/data/tokenizer/tokenizer.h"

namespace braid::data {

/// What distinguishes `tokenizer` from all others. Reads its file; throws DataError if that fails.
TokenizerIdentity identity_of(const Tokenizer& tokenizer);

/// Throws ConfigError, naming both tokenizers, if `tokenizer` is not the one of `record`, which lies beside
/// the token files `prefix`. The tokenizer.model of a directory whose tokenizer.json made the data is the
/// same one.
void require_tokenizer_of(const DataRecord& record, std::string_view prefix, const Tokenizer& tokenizer);

/// require_tokenizer_of for all token files that `input` (--input_dir) names, if there is a `tokenizer`, and
/// whether they agree with one another, in the tokenizer and in whether documents begin with a BOS id.
/// Returns a line for the log about files without a record, of which this cannot be known. Throws what
/// parse_input and read_record do, and ConfigError.
std::vector<std::string> check_tokenizer_of_input(std::string_view input, const Tokenizer* tokenizer);

}  // namespace braid::data
