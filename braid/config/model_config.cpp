#include "braid/config/model_config.h"

#include <cmath>
#include <initializer_list>
#include <ostream>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/base/text.h"

namespace braid::config {
namespace {

// Far above any model, and products of two such sizes do not overflow.
constexpr int64_t kLargestSize = int64_t{1} << 30;

const char* rope_type_name(RopeType type) {
  switch (type) {
    case RopeType::kDefault:
      return "default";
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
  }
  throw InternalError("unknown RopeType");
}

void validate(const RopeScaling& scaling) {
  if (scaling.type == RopeType::kDefault) return;
  require<ConfigError>(std::isfinite(scaling.factor) && scaling.factor >= 1,
                       "rope_scaling.factor must be at least 1, got ", to_text(scaling.factor));
  if (scaling.type == RopeType::kLinear) return;
  require<ConfigError>(scaling.low_freq_factor > 0 && std::isfinite(scaling.high_freq_factor) &&
                           scaling.low_freq_factor < scaling.high_freq_factor,
                       "rope_scaling needs 0 < low_freq_factor < high_freq_factor, got ",
                       to_text(scaling.low_freq_factor), " and ", to_text(scaling.high_freq_factor));
  require<ConfigError>(scaling.original_max_position_embeddings > 0,
                       "rope_scaling.original_max_position_embeddings must be positive, got ",
                       scaling.original_max_position_embeddings);
  require<ConfigError>(scaling.original_max_position_embeddings <= kLargestSize,
                       "rope_scaling.original_max_position_embeddings is too large: ",
                       scaling.original_max_position_embeddings);
}

}  // namespace

void validate(const ModelConfig& config) {
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"vocab_size", config.vocab_size},
           {"hidden_size", config.hidden_size},
           {"intermediate_size", config.intermediate_size},
           {"num_hidden_layers", config.num_hidden_layers},
           {"num_attention_heads", config.num_attention_heads},
           {"num_key_value_heads", config.num_key_value_heads},
           {"max_position_embeddings", config.max_position_embeddings}}) {
    require<ConfigError>(value >= 1 && value <= kLargestSize, name, " must be between 1 and ", kLargestSize,
                         ", got ", value);
  }
  require<ConfigError>(config.head_dim >= 1 && config.head_dim <= kLargestSize,
                       "head_dim must be at least 1, got ", config.head_dim, " (hidden_size ",
                       config.hidden_size, ", num_attention_heads ", config.num_attention_heads, ")");
  require<ConfigError>(config.hidden_size % config.num_attention_heads == 0 ||
                           config.head_dim != config.hidden_size / config.num_attention_heads,
                       "hidden_size must be a multiple of num_attention_heads unless head_dim is given, got ",
                       config.hidden_size, " and ", config.num_attention_heads);
  require<ConfigError>(config.head_dim % 2 == 0, "head_dim must be even (RoPE rotates pairs), got ",
                       config.head_dim);
  require<ConfigError>(config.num_attention_heads % config.num_key_value_heads == 0,
                       "num_attention_heads must be a multiple of num_key_value_heads, got ",
                       config.num_attention_heads, " and ", config.num_key_value_heads);
  require<ConfigError>(config.head_dim <= kLargestSize / config.num_attention_heads,
                       "num_attention_heads * head_dim is too large: ", config.num_attention_heads, " * ",
                       config.head_dim);
  require<ConfigError>(std::isfinite(config.initializer_range) && config.initializer_range >= 0,
                       "initializer_range must not be negative, got ", to_text(config.initializer_range));
  require<ConfigError>(
      std::isfinite(config.rms_norm_eps) && config.rms_norm_eps > 0 && config.rms_norm_eps < 1,
      "rms_norm_eps must be between 0 and 1, got ", to_text(config.rms_norm_eps));
  require<ConfigError>(std::isfinite(config.rope_theta) && config.rope_theta > 1,
                       "rope_theta must be greater than 1, got ", to_text(config.rope_theta));
  validate(config.rope_scaling);
  const auto check_id = [&](const char* name, std::optional<int64_t> id) {
    require<ConfigError>(!id || *id >= 0, name, " must not be negative, got ", id.value_or(0));
    require<ConfigError>(!id || *id < config.vocab_size, name, " ", id.value_or(0),
                         " is outside the vocabulary of ", config.vocab_size,
                         " (vocab_size), whose ids are 0 to ", config.vocab_size - 1);
  };
  check_id("bos_token_id", config.bos_token_id);
  for (const int64_t id : config.eos_token_id) check_id("eos_token_id", id);
  check_id("pad_token_id", config.pad_token_id);
  require<ConfigError>(config.sliding_window.value_or(1) >= 1, "sliding_window must be at least 1, got ",
                       config.sliding_window.value_or(0));
}

void require_full_attention(const ModelConfig& config, int64_t tokens) {
  require<ConfigError>(config.sliding_window.value_or(tokens) >= tokens, "sliding_window is ",
                       config.sliding_window.value_or(0), ", but sequences have up to ",
                       counted(tokens, "token"),
                       ": attention would not reach all of them, and braid's does; "
                       "use sequences of at most ",
                       config.sliding_window.value_or(0), " tokens");
}

std::string other_keys_text(const ModelConfig& config) {
  std::string names;
  for (const auto& [key, value] : config.other_keys) names += (names.empty() ? "" : ", ") + escaped(key);
  return "without effect on what the model computes, and kept in its config.json: " + names;
}

std::ostream& operator<<(std::ostream& out, const ModelConfig& config) {
  out << "vocab_size " << config.vocab_size << ", hidden_size " << config.hidden_size
      << ", intermediate_size " << config.intermediate_size << ", num_hidden_layers "
      << config.num_hidden_layers << ", num_attention_heads " << config.num_attention_heads
      << ", num_key_value_heads " << config.num_key_value_heads << ", head_dim " << config.head_dim
      << ", max_position_embeddings " << config.max_position_embeddings << ", rms_norm_eps "
      << to_text(config.rms_norm_eps) << ", rope_theta " << to_text(config.rope_theta) << ", rope_type "
      << rope_type_name(config.rope_scaling.type) << ", tie_word_embeddings "
      << (config.tie_word_embeddings ? "true" : "false");
  return out;
}

}  // namespace braid::config
