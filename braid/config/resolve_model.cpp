#include "braid/config/resolve_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/base/text.h"
#include "braid/config/generation_config.h"
#include "braid/config/model_config_json.h"
#include "braid/config/presets.h"

namespace braid::config {
namespace {

template <typename Value>
void override_with(const std::optional<Value>& given, Value& field) {
  if (given) field = *given;
}

void apply_overrides(const PretrainOptions& options, ModelConfig& config) {
  // Derived sizes stay derived from the overridden ones.
  const bool one_kv_each = config.num_key_value_heads == config.num_attention_heads;
  const bool even_heads = config.head_dim * config.num_attention_heads == config.hidden_size;
  override_with(options.vocab_size, config.vocab_size);
  override_with(options.hidden_size, config.hidden_size);
  override_with(options.intermediate_size, config.intermediate_size);
  override_with(options.num_hidden_layers, config.num_hidden_layers);
  override_with(options.num_attention_heads, config.num_attention_heads);
  if (one_kv_each) config.num_key_value_heads = config.num_attention_heads;
  override_with(options.num_key_value_heads, config.num_key_value_heads);
  if (even_heads && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  override_with(options.head_dim, config.head_dim);
  override_with(options.max_position_embeddings, config.max_position_embeddings);
  override_with(options.initializer_range, config.initializer_range);
  override_with(options.rms_norm_eps, config.rms_norm_eps);
  override_with(options.rope_theta, config.rope_theta);
  if (options.rope_scaling) {
    config.rope_scaling = rope_scaling_from_json(*options.rope_scaling, "--rope_scaling");
  }
  override_with(options.tie_word_embeddings, config.tie_word_embeddings);
  if (options.bos_token_id) config.bos_token_id = options.bos_token_id;
  if (options.eos_token_id) config.eos_token_id = {*options.eos_token_id};
  if (options.pad_token_id) config.pad_token_id = options.pad_token_id;
}

// Weights to continue from determine the size of every tensor.
void require_same_shapes(const ModelConfig& loaded, const ModelConfig& requested) {
  const auto same = [](const char* name, int64_t existing, int64_t wanted) {
    require<ConfigError>(existing == wanted, "--", name, " ", wanted,
                         " conflicts with the weights of --model_name_or_path, which have ", existing,
                         "; omit it, or train from scratch with --continue_training 0");
  };
  same("vocab_size", loaded.vocab_size, requested.vocab_size);
  same("hidden_size", loaded.hidden_size, requested.hidden_size);
  same("intermediate_size", loaded.intermediate_size, requested.intermediate_size);
  same("num_hidden_layers", loaded.num_hidden_layers, requested.num_hidden_layers);
  same("num_attention_heads", loaded.num_attention_heads, requested.num_attention_heads);
  same("num_key_value_heads", loaded.num_key_value_heads, requested.num_key_value_heads);
  same("head_dim", loaded.head_dim, requested.head_dim);
  same("tie_word_embeddings", loaded.tie_word_embeddings, requested.tie_word_embeddings);
}

std::string id_text(const std::optional<int64_t>& id) { return id ? std::to_string(*id) : "none"; }

std::string ids_text(const std::vector<int64_t>& ids) {
  std::string text;
  for (const int64_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text.empty() ? "none" : text;
}

// A tokenizer's ids replace those of a model that knows others, unless options say what they are. Weights to
// continue from may have several ids that end a text, of which the tokenizer has one.
void take_ids_of(const TokenizerIds& tokenizer, const PretrainOptions& options, ModelConfig& config,
                 std::vector<std::string>& notes) {
  if (!options.bos_token_id && config.bos_token_id != tokenizer.bos) {
    notes.push_back(cat("bos_token_id is ", id_text(tokenizer.bos),
                        ", the tokenizer's, instead of the model's ", id_text(config.bos_token_id)));
    config.bos_token_id = tokenizer.bos;
  }
  const bool is_known = tokenizer.eos && std::ranges::count(config.eos_token_id, *tokenizer.eos) > 0;
  if (options.eos_token_id || is_known || (!tokenizer.eos && config.eos_token_id.empty())) return;
  std::vector<int64_t> eos;
  if (tokenizer.eos) eos.push_back(*tokenizer.eos);
  notes.push_back(cat("eos_token_id is ", ids_text(eos), ", the tokenizer's, instead of the model's ",
                      ids_text(config.eos_token_id)));
  config.eos_token_id = std::move(eos);
}

// Ids of a preset or a directory beyond the vocabulary of a new model made after it stand for nothing.
void drop_ids_outside(const PretrainOptions& options, ModelConfig& config, std::vector<std::string>& notes) {
  const auto is_outside = [&](std::optional<int64_t> id) { return id && *id >= config.vocab_size; };
  const auto drop = [&](const char* name, std::optional<int64_t>& id) {
    if (!is_outside(id)) return;
    notes.push_back(cat(name, " is none: the model's own, ", *id, ", is outside the vocabulary of ",
                        config.vocab_size, "; --", name, " sets one"));
    id.reset();
  };
  if (!options.bos_token_id) drop("bos_token_id", config.bos_token_id);
  if (!options.pad_token_id) drop("pad_token_id", config.pad_token_id);
  std::vector<int64_t>& eos = config.eos_token_id;
  if (options.eos_token_id || std::ranges::none_of(eos, is_outside)) return;
  notes.push_back(cat("of eos_token_id ", ids_text(eos), " those outside the vocabulary of ",
                      config.vocab_size, " are left out; --eos_token_id sets one"));
  std::erase_if(eos, is_outside);
}

// Overrides of what a model with weights computes are allowed (longer contexts need them), but said.
void note_overrides(const ModelConfig& loaded, const ModelConfig& config, std::vector<std::string>& notes) {
  const auto note = [&](const char* name, const auto& before, const auto& after) {
    if (before != after)
      notes.push_back(cat(name, " is ", after, " instead of the ", before, " of the weights"));
  };
  note("max_position_embeddings", loaded.max_position_embeddings, config.max_position_embeddings);
  note("rms_norm_eps", to_text(loaded.rms_norm_eps), to_text(config.rms_norm_eps));
  note("rope_theta", to_text(loaded.rope_theta), to_text(config.rope_theta));
  if (loaded.rope_scaling != config.rope_scaling)
    notes.emplace_back("rope_scaling is that of the options instead of that of the weights");
}

// Enlarges a model from scratch to what it is trained with.
void fit(const PretrainOptions& options, const std::optional<TokenizerIds>& tokenizer, ModelConfig& config,
         std::vector<std::string>& notes) {
  if (config.max_position_embeddings < options.max_seq_length) {
    if (!options.max_position_embeddings) {  // else the command line says so
      notes.push_back(cat("max_position_embeddings is ", options.max_seq_length,
                          ", as --max_seq_length needs, instead of the model's ",
                          config.max_position_embeddings));
    }
    config.max_position_embeddings = options.max_seq_length;
  }
  if (!tokenizer || options.vocab_size) return;
  const int64_t rounded = (tokenizer->pieces + 127) / 128 * 128;
  if (config.vocab_size < rounded) {
    notes.push_back(cat("vocab_size is ", rounded, ", the tokenizer's ", tokenizer->pieces,
                        " pieces rounded up to a multiple of 128, instead of the model's ",
                        config.vocab_size));
    config.vocab_size = rounded;
  } else if (config.vocab_size >= 2 * rounded) {
    notes.push_back(cat("vocab_size is ", config.vocab_size, ", of which the tokenizer uses ",
                        tokenizer->pieces, ": --vocab_size ", rounded,
                        " makes embedding and head smaller, and loses nothing"));
  }
}

}  // namespace

ModelConfig resolve_model(const PretrainOptions& options, const std::optional<TokenizerIds>& tokenizer,
                          std::vector<std::string>* notes_of_caller) {
  std::vector<std::string> unwanted;
  std::vector<std::string>& notes = notes_of_caller ? *notes_of_caller : unwanted;
  const ModelConfig loaded = load_model_config(options.model_name_or_path);
  ModelConfig config = loaded;
  apply_overrides(options, config);
  if (options.continue_training) {
    require_same_shapes(loaded, config);
    require<ConfigError>(
        std::filesystem::is_directory(options.model_name_or_path),
        "--continue_training 1 needs --model_name_or_path to be a directory with weights, got '",
        escaped(options.model_name_or_path), "'");
    require<ConfigError>(options.max_seq_length <= config.max_position_embeddings, "--max_seq_length ",
                         options.max_seq_length, " is longer than the model's max_position_embeddings, ",
                         config.max_position_embeddings, "; shorten it, or raise --max_position_embeddings");
    note_overrides(loaded, config, notes);
    load_generation_config(options.model_name_or_path, config);  // for its errors
  } else {
    fit(options, tokenizer, config, notes);
  }
  require<ConfigError>(!tokenizer || tokenizer->pieces <= config.vocab_size, "the tokenizer has ",
                       tokenizer.value_or(TokenizerIds{}).pieces, " pieces, but the model's vocab_size is ",
                       config.vocab_size, ": raise --vocab_size or use the model's own tokenizer");
  if (tokenizer) take_ids_of(*tokenizer, options, config, notes);
  if (!options.continue_training) drop_ids_outside(options, config, notes);
  validate(config);
  require_full_attention(config, options.max_seq_length);
  return config;
}

}  // namespace braid::config
