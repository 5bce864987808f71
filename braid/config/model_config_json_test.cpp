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

TEST(ModelConfigJson, AbsentAndNullKeysHaveLlamaConfigsDefaults) {
  EXPECT_EQ(model_config_from_json(R"({"model_type": "llama"})", "c"), ModelConfig{});
  EXPECT_EQ(model_config_from_json(R"({"architectures": ["LlamaForCausalLM"], "num_key_value_heads": null,
                                       "head_dim": null, "rope_scaling": null, "pad_token_id": -1})",
                                   "c"),
            ModelConfig{});
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

TEST(ModelConfigJson, EndOfTextMayBeAListAndHarmlessKeysAreIgnored) {
  const ModelConfig config = model_config_from_json(
      R"({"model_type": "llama", "eos_token_id": [7, 9], "use_cache": false, "pretraining_tp": 2,
          "attention_bias": false, "attention_dropout": 0.0, "transformers_version": "5.0", "anything": {"a": [1]}})",
      "c");
  EXPECT_EQ(config.eos_token_id, (std::vector<int64_t>{7, 9}));
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
  ModelConfig read = model_config_from_json(model_config_to_json(odd, "float32"), "c");
  // A null reads as the default, as in Hugging Face's class.
  EXPECT_EQ(read.bos_token_id, 1);
  read.bos_token_id.reset();
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
      {R"({"model_type": "llama", "mlp_bias": true})", "mlp_bias is true"},
      {R"({"model_type": "llama", "attention_dropout": 0.1})",
       "attention_dropout is 0.1; braid trains without dropout"},
      {R"({"model_type": "llama", "hidden_act": "gelu"})", "hidden_act is gelu; braid supports silu"},
      {R"({"model_type": "mistral"})", "model_type is mistral"},
      {R"({"architectures": ["MistralForCausalLM"]})", "architectures is [\"MistralForCausalLM\"]"},
      {R"({})", "neither model_type nor architectures"},
      {R"({"model_type": "llama", "quantization_config": {"bits": 4}})", "quantization_config is set"},
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
      {"{\"model_type\":\n \"llama\",}", "m/config.json is not valid JSON: line 2, column 10: unexpected \"}\""},
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
