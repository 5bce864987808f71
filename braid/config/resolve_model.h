// The model that a run trains: that of its options' directory or preset, with their changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/config/model_config.h"
#include "braid/config/options.h"

namespace braid::config {

/// What the model has to agree with its tokenizer on.
struct TokenizerIds {
  int64_t pieces = 0;
  std::optional<int64_t> bos = std::nullopt;
  std::optional<int64_t> eos = std::nullopt;
};

/// The model to train: the configuration of model_name_or_path with the overrides, validated. A model trained
/// from scratch is enlarged to max_seq_length positions, and to the tokenizer's pieces (rounded up to a
/// multiple of 128) unless vocab_size is given. The ids that begin and end texts are those of the options,
/// else the tokenizer's, else the model's. What is changed that no option asked for, or changed in a model
/// with weights, goes to `notes` if given, one line each. Throws ConfigError if the tokenizer or
/// max_seq_length do not fit a given model, overrides conflict with the weights to continue from, or the
/// directory's generation_config.json has ids outside the vocabulary; and what load_model_config throws.
ModelConfig resolve_model(const PretrainOptions& options,
                          const std::optional<TokenizerIds>& tokenizer = std::nullopt,
                          std::vector<std::string>* notes = nullptr);

}  // namespace braid::config
