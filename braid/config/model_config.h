// The shape of a Llama model, with the names and defaults of Hugging Face's LlamaConfig.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace braid::config {

enum class RopeType { kDefault, kLinear, kLlama3 };

/// How rotary frequencies are scaled beyond the trained length. kDefault uses none of the numbers, kLinear
/// only `factor`. Source: Chen et al. 2023, arXiv:2306.15595 (linear); the Llama 3.1 release (llama3).
struct RopeScaling {
  RopeType type = RopeType::kDefault;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;
};

/// num_key_value_heads and head_dim are derived from the fields above them when omitted from the initialiser,
/// as in Hugging Face's class; later assignments to those fields do not update them.
struct ModelConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = num_attention_heads;
  int64_t head_dim = num_attention_heads > 0 ? hidden_size / num_attention_heads : 0;
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = {};
  bool tie_word_embeddings = false;
  std::optional<int64_t> bos_token_id = 1;
  /// Each of these ends a text.
  std::vector<int64_t> eos_token_id = {2};
  std::optional<int64_t> pad_token_id = std::nullopt;
  /// How far back attention would reach: sequences must not be longer, as braid's attention reaches them
  /// whole.
  std::optional<int64_t> sliding_window = std::nullopt;
  /// Further keys of config.json, without effect on what is computed, with their values as JSON: an export
  /// writes them again.
  std::map<std::string, std::string> other_keys = {};

  bool operator==(const ModelConfig&) const = default;
};

/// Throws ConfigError, naming the keys, the rule and the values, unless braid can build this model: sizes
/// positive, hidden_size a multiple of the heads unless head_dim is set otherwise, heads a multiple of the
/// key-value heads, head_dim even, RoPE's numbers valid, token ids within the vocabulary.
void validate(const ModelConfig& config);

/// Throws ConfigError if the model's attention would not reach over all of `tokens`.
void require_full_attention(const ModelConfig& config, int64_t tokens);

/// A line for the log: the keys of config.json that are kept and have no effect. Not checked: there are some.
std::string other_keys_text(const ModelConfig& config);

/// The fields under their names in config.json, on one line.
std::ostream& operator<<(std::ostream& out, const ModelConfig& config);

}  // namespace braid::config
