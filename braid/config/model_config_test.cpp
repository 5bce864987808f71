#include "braid/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "braid/base/error.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

TEST(ModelConfig, DefaultsAreLlamaConfigs) {
  const ModelConfig config;
  EXPECT_EQ(config.vocab_size, 32000);
  EXPECT_EQ(config.intermediate_size, 11008);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_NO_THROW(validate(config));
}

TEST(ModelConfig, OmittedHeadsAreDerivedFromTheFieldsAboveThem) {
  const ModelConfig config{.hidden_size = 64, .num_attention_heads = 4};
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ((ModelConfig{.num_attention_heads = 0}).head_dim, 0);
}

TEST(ModelConfig, HeadDimMayDifferFromHiddenOverHeads) {
  EXPECT_NO_THROW(validate({.hidden_size = 100, .num_attention_heads = 3, .head_dim = 32}));
}

struct InvalidCase {
  std::function<void(ModelConfig&)> damage;
  std::string message;
};

TEST(ModelConfig, EveryRuleNamesItsKeysAndValues) {
  const std::vector<InvalidCase> cases = {
      {[](ModelConfig& c) { c.vocab_size = 0; }, "vocab_size must be between 1 and"},
      {[](ModelConfig& c) { c.hidden_size = -64; }, "got -64"},
      {[](ModelConfig& c) { c.intermediate_size = int64_t{1} << 40; }, "intermediate_size must be between"},
      {[](ModelConfig& c) { c.num_hidden_layers = 0; }, "num_hidden_layers must be between"},
      {[](ModelConfig& c) { c.num_attention_heads = 0; }, "num_attention_heads must be between"},
      {[](ModelConfig& c) { c.num_key_value_heads = 0; }, "num_key_value_heads must be between"},
      {[](ModelConfig& c) { c.num_key_value_heads = 5; }, "multiple of num_key_value_heads, got 32 and 5"},
      {[](ModelConfig& c) { c.max_position_embeddings = 0; }, "max_position_embeddings must be between"},
      {[](ModelConfig& c) { c.head_dim = 0; }, "head_dim must be at least 1"},
      {[](ModelConfig& c) { c.head_dim = 127; }, "head_dim must be even"},
      {[](ModelConfig& c) { c.hidden_size = 4100; },
       "multiple of num_attention_heads unless head_dim is given"},
      {[](ModelConfig& c) { c.head_dim = int64_t{1} << 30; }, "too large"},
      {[](ModelConfig& c) { c.initializer_range = -1; }, "initializer_range must not be negative, got -1"},
      {[](ModelConfig& c) { c.rms_norm_eps = 0; }, "rms_norm_eps must be between 0 and 1, got 0"},
      {[](ModelConfig& c) { c.rope_theta = 1; }, "rope_theta must be greater than 1, got 1"},
      {[](ModelConfig& c) { c.rope_scaling = {.type = RopeType::kLinear, .factor = 0.5}; },
       "rope_scaling.factor must be at least 1, got 0.5"},
      {[](ModelConfig& c) { c.rope_scaling = {.type = RopeType::kLlama3, .low_freq_factor = 4}; },
       "0 < low_freq_factor < high_freq_factor, got 4 and 4"},
      {[](ModelConfig& c) {
         c.rope_scaling = {.type = RopeType::kLlama3, .original_max_position_embeddings = 0};
       },
       "original_max_position_embeddings must be positive, got 0"},
      {[](ModelConfig& c) {
         c.rope_scaling = {.type = RopeType::kLlama3, .original_max_position_embeddings = int64_t{1} << 40};
       },
       "original_max_position_embeddings is too large"},
      {[](ModelConfig& c) { c.bos_token_id = -1; }, "bos_token_id must not be negative, got -1"},
      {[](ModelConfig& c) {
         c.eos_token_id = {2, -7};
       },
       "eos_token_id must not be negative, got -7"},
  };
  for (const InvalidCase& invalid : cases) {
    ModelConfig config;
    invalid.damage(config);
    try {
      validate(config);
      ADD_FAILURE() << "accepted, expected: " << invalid.message;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(invalid.message));
    }
  }
}

TEST(ModelConfig, PrintsItsShape) {
  std::ostringstream out;
  out << ModelConfig{.num_hidden_layers = 3};
  EXPECT_THAT(out.str(), HasSubstr("num_hidden_layers 3, num_attention_heads 32"));
}

}  // namespace
}  // namespace braid::config
