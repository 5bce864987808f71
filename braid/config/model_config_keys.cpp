#include "braid/config/model_config_keys.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "braid/base/text.h"

namespace braid::config {
namespace {

using nlohmann::json;

// Read by model_config_from_json.
constexpr auto kRead = std::to_array<std::string_view>({"architectures",
                                                        "model_type",
                                                        "vocab_size",
                                                        "hidden_size",
                                                        "intermediate_size",
                                                        "num_hidden_layers",
                                                        "num_attention_heads",
                                                        "num_key_value_heads",
                                                        "head_dim",
                                                        "hidden_act",
                                                        "initializer_range",
                                                        "max_position_embeddings",
                                                        "rms_norm_eps",
                                                        "rope_theta",
                                                        "rope_scaling",
                                                        "rope_parameters",
                                                        "tie_word_embeddings",
                                                        "bos_token_id",
                                                        "eos_token_id",
                                                        "pad_token_id",
                                                        "torch_dtype",
                                                        "dtype",
                                                        "sliding_window",
                                                        "use_sliding_window",
                                                        "layer_types"});

// What the file was written by, which an export is not.
constexpr auto kDropped = std::to_array<std::string_view>({"transformers_version", "paddlenlp_version"});

// How a model is run, trained, labelled or sampled from: nothing that changes the logits of given tokens.
// From PretrainedConfig of transformers 4 and 5, and from PaddleNLP's and other programs' files.
constexpr auto kHarmless = std::to_array<std::string_view>(
    {"pretraining_tp",  // splits products over ranks: another rounding at most
     "chunk_size_feed_forward", "attn_implementation", "finetuning_task", "gradient_checkpointing",
     "id2label", "is_decoder", "is_llama_config", "transformers.js_config", "use_flash_attn", "label2id",
     "license", "max_sequence_length", "max_window_layers", "model_max_length", "name_or_path", "num_labels",
     "output_attentions", "output_hidden_states", "output_scores", "prefix", "problem_type", "return_dict",
     "return_dict_in_generate", "seq_length", "task_specific_params", "tf_legacy_loss", "tokenizer_class",
     "torchscript", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
     // Token ids and sampling, once kept here and now in generation_config.json.
     "bad_words_ids", "begin_suppress_tokens", "cls_token_id", "decoder_start_token_id", "diversity_penalty",
     "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff",
     "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id", "length_penalty",
     "mask_token_id", "max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size", "num_beam_groups",
     "num_beams", "num_return_sequences", "remove_invalid_values", "repetition_penalty", "sep_token_id",
     "suppress_tokens", "temperature", "top_k", "top_p", "typical_p", "unk_token_id",
     // PaddleNLP's ways to run a model.
     "context_parallel_degree", "dtype_for_export", "fuse_attention_ffn", "fuse_attention_qkv",
     "fuse_sequence_parallel_allreduce", "immediate_clear_past_key_value", "lm_shift_labels",
     "no_recompute_layers", "no_refined_recompute", "num_microbatches", "offload_recompute_inputs",
     "pp_recompute_interval", "recompute", "recompute_granularity", "recompute_use_reentrant",
     "refined_recompute", "sep_parallel_degree", "sequence_parallel", "skip_recompute_ops",
     "tensor_parallel_degree", "tensor_parallel_output", "tensor_parallel_rank", "tp_degree",
     "use_flash_attention", "use_flash_attention_2", "use_fused_dropout_add", "use_fused_head_and_loss_fn",
     "use_fused_linear", "use_fused_linear_cross_entropy", "use_fused_rms_norm", "use_fused_rope",
     "use_last_token_for_generation", "use_recompute", "use_sdpa", "use_unpadding", "vocab_file",
     "virtual_pp_degree"});

// Settings that change what is computed, with the value at which they do not, as JSON; null always counts as
// that value.
struct Setting {
  std::string_view key;
  std::string_view neutral;
  std::string_view reason;
};

constexpr std::string_view kBias = "braid's linear layers have no biases";
constexpr std::string_view kDropout = "braid trains without dropout";
constexpr std::string_view kScale = "braid does not scale these values";
constexpr std::string_view kNorm = "braid has no norms of queries and keys";
constexpr std::string_view kExperts = "braid has one MLP a layer, without experts";
constexpr std::string_view kParallel = "braid computes attention first and the MLP from its sum";
constexpr std::string_view kCap = "braid does not bound these values";
constexpr std::string_view kRotary = "braid rotates whole heads";
constexpr std::string_view kPlace = "braid knows positions by RoPE alone";
constexpr std::string_view kQuantised = "braid requires unquantised weights";
constexpr std::string_view kCausal = "braid's models are decoders with causal attention";
constexpr std::string_view kActivation = "braid supports silu";

constexpr auto kSettings = std::to_array<Setting>({
    {"attention_bias", "false", kBias},
    {"mlp_bias", "false", kBias},
    {"bias", "false", kBias},
    {"use_bias", "false", kBias},
    {"no_bias", "true", kBias},
    {"qkv_bias", "false", kBias},
    {"use_qkv_bias", "false", kBias},
    {"attn_bias", "false", kBias},
    {"attention_out_bias", "false", kBias},
    {"add_bias_linear", "false", kBias},
    {"add_qkv_bias", "false", kBias},
    {"lm_head_bias", "false", kBias},
    {"attention_dropout", "0", kDropout},
    {"attention_dropout_prob", "0", kDropout},
    {"attention_probs_dropout_prob", "0", kDropout},
    {"hidden_dropout", "0", kDropout},
    {"hidden_dropout_prob", "0", kDropout},
    {"residual_dropout", "0", kDropout},
    {"embedding_dropout", "0", kDropout},
    {"attn_pdrop", "0", kDropout},
    {"embd_pdrop", "0", kDropout},
    {"resid_pdrop", "0", kDropout},
    {"dropout", "0", kDropout},
    {"logits_scaling", "1", kScale},
    {"logit_scale", "1", kScale},
    {"attention_multiplier", "null", "braid scales attention by 1/sqrt(head_dim)"},
    {"query_pre_attn_scalar", "null", "braid scales attention by 1/sqrt(head_dim)"},
    {"residual_multiplier", "1", kScale},
    {"embedding_multiplier", "1", kScale},
    {"lm_head_multiplier", "1", kScale},
    {"key_multiplier", "1", kScale},
    {"scale_emb", "1", kScale},
    {"scale_depth", "null", kScale},
    {"dim_model_base", "null", kScale},
    {"use_mup", "false", kScale},
    {"qk_norm", "false", kNorm},
    {"use_qk_norm", "false", kNorm},
    {"qk_layernorm", "false", kNorm},
    {"use_qkv_norm", "false", kNorm},
    {"num_local_experts", "0", kExperts},
    {"num_experts", "0", kExperts},
    {"n_routed_experts", "0", kExperts},
    {"n_shared_experts", "0", kExperts},
    {"moe_num_experts", "0", kExperts},
    {"num_experts_per_tok", "0", kExperts},
    {"use_moe", "false", kExperts},
    {"use_parallel_residual", "false", kParallel},
    {"parallel_residual", "false", kParallel},
    {"parallel_attn", "false", kParallel},
    {"attn_logit_softcapping", "null", kCap},
    {"final_logit_softcapping", "null", kCap},
    {"logit_softcapping", "null", kCap},
    {"clip_qkv", "null", kCap},
    {"partial_rotary_factor", "1", kRotary},
    {"rotary_pct", "1", kRotary},
    {"rope_interleaved", "false", "braid rotates the two halves of a head"},
    {"rope_scaling_factor", "1", "braid reads rope_scaling"},
    {"rope_scaling_type", "null", "braid reads rope_scaling"},
    {"alibi", "false", kPlace},
    {"use_alibi", "false", kPlace},
    {"no_rope_layers", "[]", "braid uses RoPE in every layer"},
    {"attention_chunk_size", "null", "braid's attention spans the whole sequence"},
    {"quantization_config", "null", kQuantised},
    {"compression_config", "null", kQuantised},
    {"quantization", "null", kQuantised},
    {"is_encoder_decoder", "false", kCausal},
    {"add_cross_attention", "false", kCausal},
    {"cross_attention_hidden_size", "null", kCausal},
    {"use_bidirectional_attention", "false", kCausal},
    {"tie_encoder_decoder", "false", kCausal},
    {"auto_map", "null", "it names Python code that may compute something else than Llama"},
    {"pruned_heads", "{}", "braid's layers have all their heads"},
    {"hidden_activation", "\"silu\"", kActivation},
    {"mlp_activation", "\"silu\"", kActivation},
});

// What keeps models close to Llama from being one.
constexpr auto kRelatives = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"mistral",
     "attention in a sliding window; where sliding_window is null, the model is a Llama: write "
     "\"llama\" and [\"LlamaForCausalLM\"]"},
    {"ministral", "attention in a sliding window"},
    {"mixtral", "experts in place of the MLP"},
    {"qwen2", "biases of the query, key and value projections"},
    {"qwen2_moe", "experts in place of the MLP"},
    {"qwen3", "norms of queries and keys"},
    {"qwen3_moe", "experts in place of the MLP"},
    {"granite", "scaled embeddings, attention, residuals and logits"},
    {"olmo", "layer norms without weights"},
    {"olmo2", "norms behind attention and MLP, and of queries and keys"},
    {"smollm3", "layers without RoPE"},
    {"phi3", "fused projections, and attention in a sliding window"},
    {"gemma", "scaled embeddings, norms with an offset, and another activation"},
    {"gemma2", "scaled embeddings, four norms a layer, and bounded logits"},
    {"cohere", "parallel attention and MLP, and scaled logits"},
    {"llama4", "experts, and layers without RoPE"},
    {"mllama", "images as input"},
    {"arcee", "another activation and no gate in the MLP"},
    {"stablelm", "layer norms with biases, and partial rotation"},
});

template <size_t size>
bool contains(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void require_llama_architecture(const json& name, const json& all, std::string_view where) {
  // LlamaForCausalLM, its old spelling LLaMAForCausalLM, and PaddleNLP's LlamaForPretraining and pipelines.
  constexpr auto kAccepted = std::to_array<std::string_view>(
      {"llamaforcausallm", "llamaforpretraining", "llamaforcausallmpipe", "llamaforpretrainingpipe"});
  require<ConfigError>(name.is_string() && contains(kAccepted, lower_case(name.get<std::string>())), where,
                       ": architectures is ", json_text(all), "; braid supports LlamaForCausalLM");
}

const Setting* find_setting(std::string_view key) {
  const auto* found = std::find_if(kSettings.begin(), kSettings.end(),
                                   [&](const Setting& setting) { return setting.key == key; });
  return found == kSettings.end() ? nullptr : found;
}

void check_setting(const Setting& setting, const json& value, std::string_view where) {
  const json neutral = json::parse(setting.neutral);
  if (value.is_null() || value == neutral) return;
  // Numbers that are spelled otherwise (0.0) are equal to the library; other types are not what they say.
  const bool same_kind = value.type() == neutral.type() || (value.is_number() && neutral.is_number()) ||
                         neutral.is_null() || neutral.is_structured();
  require<ConfigError>(same_kind, where, ": ", setting.key, " must be ",
                       neutral.is_boolean()  ? "true or false"
                       : neutral.is_number() ? "a number"
                                             : "a string",
                       ", got ", json_text(value));
  if (setting.key == "no_rope_layers" && value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const json& item) { return item == 1; }))
    return;  // 1: a layer with RoPE
  if ((setting.key == "hidden_activation" || setting.key == "mlp_activation") && value == "swish") return;
  throw ConfigError(cat(where, ": ", setting.key, " is ", json_text(value), "; ", setting.reason,
                        neutral.is_null() ? cat(" (without ", setting.key, ")")
                                          : cat(" (", setting.key, " ", setting.neutral, ")")));
}

}  // namespace

void require_llama(const json& config, std::string_view where) {
  const auto find = [&](const char* key) -> const json* {
    const auto found = config.find(key);
    return found == config.end() || found->is_null() ? nullptr : &*found;
  };
  const json* type = find("model_type");
  if (type != nullptr) {
    require<ConfigError>(type->is_string(), where, ": model_type must be a string, got ", json_text(*type));
    const auto name = type->get<std::string>();
    const auto* relative = std::find_if(kRelatives.begin(), kRelatives.end(),
                                        [&](const auto& one) { return one.first == name; });
    require<ConfigError>(
        name == "llama", where, ": model_type is ", escaped(name), "; braid supports the llama architecture",
        relative == kRelatives.end() ? "" : cat(", which this one differs from by ", relative->second));
  }
  const json* architectures = find("architectures");
  require<ConfigError>(type != nullptr || architectures != nullptr, where,
                       " has neither model_type nor architectures: is it a model's config.json?");
  if (architectures == nullptr) return;
  require<ConfigError>(architectures->is_array() && !architectures->empty(), where,
                       ": architectures must be a list of names, got ", json_text(*architectures));
  for (const json& name : *architectures) require_llama_architecture(name, *architectures, where);
}

std::map<std::string, std::string> other_keys(const json& config, std::string_view where) {
  std::map<std::string, std::string> kept;
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config.items()) {
    if (contains(kRead, key) || contains(kDropped, key)) continue;
    if (const Setting* setting = find_setting(key)) {
      check_setting(*setting, value, where);
      // Written by every export, like the keys above.
      if (key == "attention_bias" || key == "mlp_bias" || key == "attention_dropout") continue;
    } else if (key == "use_cache" && value == true) {
      continue;  // as every export says
    } else if (!contains(kHarmless, key) && !key.starts_with('_') && !value.is_null()) {
      unknown.push_back(cat(escaped(key), " ", json_text(value)));
      continue;
    }
    kept.emplace(key, value.dump());
  }
  if (unknown.empty()) return kept;
  std::string list = unknown.front();
  for (size_t i = 1; i < unknown.size(); ++i) list += ", " + unknown[i];
  throw ConfigError(cat(where, ": braid does not know ", unknown.size() == 1 ? "the key " : "the keys ", list,
                        ", and so not whether the model computes something else than Llama; if it does not, "
                        "remove ",
                        unknown.size() == 1 ? "it" : "them",
                        ", or put _ before the name: such keys are kept without effect"));
}

}  // namespace braid::config
