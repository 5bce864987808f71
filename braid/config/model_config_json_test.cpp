#include "braid/config/model_config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/config/presets.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    model_config_from_json(text, "m/config.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted: " + text;
}

TEST(ModelConfigJson, AbsentKeysHaveLlamaConfigsDefaults) {
  EXPECT_EQ(model_config_from_json(R"({"model_type": "llama"})", "c"), ModelConfig{});
  EXPECT_EQ(model_config_from_json(R"({"architectures": ["LlamaForCausalLM"], "num_key_value_heads": null,
                                       "head_dim": null, "rope_scaling": null, "pad_token_id": -1,
                                       "quantization_config": null, "attention_dropout": null})",
                                   "c")
                .num_key_value_heads,
            32);
}

TEST(ModelConfigJson, HeadsAreDerivedFromTheOtherKeys) {
  const ModelConfig config =
      model_config_from_json(R"({"model_type": "llama", "hidden_size": 96, "num_attention_heads": 6})", "c");
  EXPECT_EQ(config.num_key_value_heads, 6);
  EXPECT_EQ(config.head_dim, 16);
}

TEST(ModelConfigJson, RopeIsReadFromOldAndNewKeys) {
  const ModelConfig old_keys = model_config_from_json(
      R"({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4}})", "c");
  const ModelConfig new_keys = model_config_from_json(
      R"({"model_type": "llama",
          "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}})",
      "c");
  EXPECT_EQ(old_keys, new_keys);
  EXPECT_EQ(old_keys.rope_theta, 500000);
  EXPECT_EQ(old_keys.rope_scaling, (RopeScaling{.type = RopeType::kLinear, .factor = 4}));
}

TEST(ModelConfigJson, EndOfTextMayBeAList) {
  const ModelConfig config =
      model_config_from_json(R"({"model_type": "llama", "eos_token_id": [7, 9]})", "c");
  EXPECT_EQ(config.eos_token_id, (std::vector<int64_t>{7, 9}));
}

TEST(ModelConfigJson, NullMeansNoToken) {
  const ModelConfig config = model_config_from_json(
      R"({"model_type": "llama", "bos_token_id": null, "eos_token_id": null, "pad_token_id": null})", "c");
  EXPECT_EQ(config.bos_token_id, std::nullopt);
  EXPECT_TRUE(config.eos_token_id.empty());
}

TEST(ModelConfigJson, HarmlessKeysSurvive) {
  const std::string text =
      R"({"model_type": "llama", "use_cache": false, "pretraining_tp": 2, "temperature": 0.6,
      "attention_bias": false, "attention_dropout": 0.0, "transformers_version": "4.31.0", "unheard_of": null,
      "_of_mine": {"a": [1, 0.1]}, "logits_scaling": 1.0, "partial_rotary_factor": 1, "no_rope_layers": [1, 1],
      "layer_types": ["full_attention", "full_attention"], "sliding_window": 512, "mlp_bias": false})";
  const ModelConfig config = model_config_from_json(text, "c");
  std::vector<std::string> kept;
  for (const auto& [key, value] : config.other_keys) kept.push_back(key);
  EXPECT_THAT(kept,
              testing::ElementsAre("_of_mine", "logits_scaling", "no_rope_layers", "partial_rotary_factor",
                                   "pretraining_tp", "temperature", "unheard_of", "use_cache"));
  const std::string written = model_config_to_json(config, "float32");
  for (const char* part : {R"("use_cache": false)", R"("pretraining_tp": 2)", R"("temperature": 0.6)",
                           R"("unheard_of": null)", R"("sliding_window": 512)"}) {
    EXPECT_THAT(written, HasSubstr(part));
  }
  EXPECT_THAT(written, testing::Not(HasSubstr("4.31.0")));
  EXPECT_EQ(model_config_from_json(written, "c"), config);
}

TEST(ModelConfigJson, ASlidingWindowIsAsLongAsTheSequences) {
  const ModelConfig config =
      model_config_from_json(R"({"model_type": "llama", "sliding_window": 512})", "m/config.json");
  EXPECT_NO_THROW(require_full_attention(config, 512));
  EXPECT_THROW(require_full_attention(config, 513), ConfigError);
  EXPECT_NO_THROW(require_full_attention(ModelConfig{}, 1 << 20));
  const ModelConfig unused = model_config_from_json(
      R"({"model_type": "llama", "sliding_window": 4, "use_sliding_window": false})", "m/config.json");
  EXPECT_NO_THROW(require_full_attention(unused, 513));
}

TEST(ModelConfigJson, WritingAndReadingIsTheIdentity) {
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    EXPECT_EQ(model_config_from_json(model_config_to_json(preset.config, "bfloat16"), "c"), preset.config);
  }
  ModelConfig odd{
      .vocab_size = 7, .hidden_size = 12, .num_attention_heads = 3, .num_key_value_heads = 1, .head_dim = 6};
  odd.rms_norm_eps = 0.1 / 3;
  odd.rope_scaling = {.type = RopeType::kLinear, .factor = 1.0 / 0.3};
  odd.bos_token_id.reset();
  odd.pad_token_id = 0;
  odd.eos_token_id = {3, 4};
  const ModelConfig read = model_config_from_json(model_config_to_json(odd, "float32"), "c");
  EXPECT_EQ(read, odd);
}

TEST(ModelConfigJson, WritesTheKeysOfBothTransformersReleases) {
  ModelConfig config = *find_preset("llama-3.2-1b");
  const std::string text = model_config_to_json(config, "bfloat16");
  for (const char* part :
       {R"("architectures": [)", R"("LlamaForCausalLM")", R"("model_type": "llama")",
        R"("rope_theta": 500000.0)", R"("rope_scaling": {)", R"("rope_parameters": {)",
        R"("torch_dtype": "bfloat16")", R"("dtype": "bfloat16")", R"("eos_token_id": 128001)",
        R"("pad_token_id": null)", R"("rms_norm_eps": 1e-05)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THROW(model_config_to_json(config, "int8"), ConfigError);
}

TEST(ModelConfigJson, RejectsUnsupportedSettingsAndInvalidText) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"model_type": "llama", "attention_bias": true})", "m/config.json: attention_bias is true"},
      {R"({"model_type": "llama", "mlp_bias": true})",
       "mlp_bias is true; braid's linear layers have no biases (mlp_bias false)"},
      {R"({"model_type": "llama", "bias": true})", "m/config.json: bias is true"},
      {R"({"model_type": "llama", "no_bias": false})", "no_bias is false"},
      {R"({"model_type": "llama", "logits_scaling": 8.0})", "logits_scaling is 8.0"},
      {R"({"model_type": "llama", "attention_multiplier": 0.0078125})", "attention_multiplier is 0.0078125"},
      {R"({"model_type": "llama", "residual_multiplier": 0.22})", "residual_multiplier is 0.22"},
      {R"({"model_type": "llama", "embedding_multiplier": 12})", "embedding_multiplier is 12"},
      {R"({"model_type": "llama", "qk_norm": true})",
       "qk_norm is true; braid has no norms of queries and keys"},
      {R"({"model_type": "llama", "qk_norm": "yes"})", "qk_norm must be true or false, got \"yes\""},
      {R"({"model_type": "llama", "num_local_experts": 8})", "num_local_experts is 8"},
      {R"({"model_type": "llama", "use_parallel_residual": true})", "use_parallel_residual is true"},
      {R"({"model_type": "llama", "attn_logit_softcapping": 50})", "attn_logit_softcapping is 50"},
      {R"({"model_type": "llama", "final_logit_softcapping": 30})", "final_logit_softcapping is 30"},
      {R"({"model_type": "llama", "clip_qkv": 8})", "clip_qkv is 8"},
      {R"({"model_type": "llama", "no_rope_layers": [1, 0]})", "no_rope_layers is [1,0]"},
      {R"({"model_type": "llama", "layer_types": ["full_attention", "sliding_attention"]})",
       "layer_types has \"sliding_attention\""},
      {R"({"model_type": "llama", "auto_map": {"AutoModel": "a.B"}})", "auto_map is {"},
      {R"({"model_type": "llama", "layer_norm_eps": 1e-5})",
       "m/config.json: braid does not know the key layer_norm_eps 1e-05, and so not"},
      {R"({"model_type": "llama", "a\u001b": 1, "b": 2})",
       "does not know the keys a\\x1b 1, b 2, and so not whether the model computes something else than "
       "Llama; "
       "if it does not, remove them, or put _ before the name"},
      {R"({"model_type": "llama", "hidden_size": 64, "hidden_size": 128})",
       "m/config.json has the key \"hidden_size\" twice"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2, "factor": 4}})",
       "has the key \"factor\" twice"},
      {R"({"model_type": "llama", "torch_dtype": "float16", "dtype": "bfloat16"})",
       "dtype bfloat16 and torch_dtype float16 disagree"},
      {R"({"model_type": "llama", "torch_dtype": "int8"})", "dtype is int8"},
      {R"({"model_type": "llama", "hidden_size": null})", "hidden_size must be a whole number, got null"},
      {R"({"model_type": "llama", "rms_norm_eps": null})", "rms_norm_eps must be a number, got null"},
      {R"({"model_type": "llama", "bos_token_id": 32000})",
       "bos_token_id 32000 is outside the vocabulary of 32000 (vocab_size), whose ids are 0 to 31999"},
      {R"({"model_type": "llama", "eos_token_id": [2, 128009]})", "eos_token_id 128009 is outside"},
      {R"({"model_type": "llama", "pad_token_id": -2})", "pad_token_id must not be negative, got -2"},
      {R"({"model_type": "llama", "vocab_size": 2})", "eos_token_id 2 is outside the vocabulary of 2"},
      {R"({"model_type": "llama", "rope_parameters": {"full_attention": {"rope_theta": 1e4}}})",
       "rope_parameters has settings of its own for \"full_attention\""},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2},
           "rope_parameters": {"rope_type": "linear", "factor": 4}})",
       "rope_scaling {\"factor\":2,\"rope_type\":\"linear\"} and rope_parameters"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "default", "factor": 2}})",
       "rope_scaling: factor is 2, which RoPE of this type has no use for"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2, "attention_factor": 1.2}})",
       "attention_factor is 1.2, which RoPE of this type has no use for"},
      {R"({"model_type": "qwen2"})",
       "model_type is qwen2; braid supports the llama architecture, which this one differs from by biases"},
      {R"({"architectures": ["LlamaForSequenceClassification"]})",
       "architectures is [\"LlamaForSequenceClassification\"]"},
      {R"({"architectures": "LlamaForCausalLM"})", "architectures must be a list of names"},
      {R"({"model_type": "llama", "attention_dropout": 0.1})",
       "attention_dropout is 0.1; braid trains without dropout"},
      {R"({"model_type": "llama", "hidden_act": "gelu"})", "hidden_act is gelu; braid supports silu"},
      {R"({"model_type": "mistral"})", "model_type is mistral"},
      {R"({"architectures": ["MistralForCausalLM"]})", "architectures is [\"MistralForCausalLM\"]"},
      {R"({})", "neither model_type nor architectures"},
      {R"({"model_type": "llama", "quantization_config": {"bits": 4}})",
       "quantization_config is {\"bits\":4}; braid requires unquantised weights"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 2}})", "rope_type is yarn"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear"}})",
       "rope_scaling: factor is missing"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8}})",
       "original_max_position_embeddings is missing"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "type": "yarn"}})", "disagree"},
      {R"({"model_type": "llama", "rope_scaling": 3})", "rope_scaling must be an object, got 3"},
      {R"({"model_type": "llama", "rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}})",
       "rope_theta is 5e+05 but elsewhere in the file 10000"},
      {R"({"model_type": "llama", "partial_rotary_factor": 0.5})", "partial_rotary_factor is 0.5"},
      {R"({"model_type": "llama", "hidden_size": "4096"})",
       "hidden_size must be a whole number, got \"4096\""},
      {R"({"model_type": "llama", "hidden_size": 4096.5})", "hidden_size must be a whole number, got 4096.5"},
      {R"({"model_type": "llama", "hidden_size": 1e300})", "hidden_size must be a whole number"},
      {R"({"model_type": "llama", "vocab_size": 18446744073709551615})", "vocab_size must be a whole number"},
      {R"({"model_type": "llama", "rms_norm_eps": "x"})", "rms_norm_eps must be a number, got \"x\""},
      {R"({"model_type": "llama", "tie_word_embeddings": 1})",
       "tie_word_embeddings must be true or false, got 1"},
      {R"({"model_type": 1})", "model_type must be a string, got 1"},
      {R"({"model_type": "llama", "eos_token_id": ["a"]})",
       "eos_token_id must be a whole number or a list of them"},
      {R"({"model_type": "llama", "num_attention_heads": 0})",
       "m/config.json: num_attention_heads must be between"},
      {R"([1, 2])", "m/config.json must be an object, got [1,2]"},
      {"{\"model_type\":\n \"llama\",}",
       "m/config.json is not valid JSON: line 2, column 10: unexpected \"}\""},
      {"{\"model_type\": \"llama\", \"rms_norm_eps\": NaN}",
       "is not valid JSON: line 1, column 41: unexpected \"NaN\"; JSON has finite numbers only"},
      {"", "m/config.json is not valid JSON"},
      {std::string(100000, '['), "m/config.json is not valid JSON"},
      {"{\"model_type\": \"\xff\"}", "m/config.json is not valid JSON"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(error_of(text), HasSubstr(message));
}

TEST(ModelConfigJson, RopeScalingFromTheCommandLine) {
  EXPECT_EQ(rope_scaling_from_json("none", "--rope_scaling"), RopeScaling{});
  EXPECT_EQ(rope_scaling_from_json(R"({"rope_type": "linear", "factor": 2})", "--rope_scaling").factor, 2);
  EXPECT_THROW(rope_scaling_from_json("linear", "--rope_scaling"), ConfigError);
  EXPECT_THROW(
      rope_scaling_from_json(R"({"rope_type": "linear", "factor": 2, "rope_theta": 5})", "--rope_scaling"),
      ConfigError);
}

}  // namespace
}  // namespace braid::config
