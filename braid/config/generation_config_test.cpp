#include "braid/config/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

const ModelConfig kModel = {.vocab_size = 300, .bos_token_id = std::nullopt, .eos_token_id = {256, 7}};

TEST(GenerationConfig, IdsAreReadAndChecked) {
  EXPECT_EQ(generation_config_from_json(R"({"bos_token_id": 1, "eos_token_id": [2, 299], "pad_token_id": -1,
                                            "temperature": 0.6})",
                                        "g", kModel),
            (GenerationConfig{.bos_token_id = 1, .eos_token_id = {2, 299}, .pad_token_id = std::nullopt}));
  EXPECT_EQ(generation_config_from_json("{}", "g", kModel), GenerationConfig{});
  for (const auto& [text, message] :
       {std::pair(R"({"eos_token_id": [2, 300]})",
                  "m/g.json: eos_token_id 300 is outside the model's vocabulary "
                  "of 300, whose ids are 0 to 299"),
        std::pair(R"({"pad_token_id": -7})", "pad_token_id -7 is outside"),
        std::pair(R"({"bos_token_id": "1"})", "bos_token_id must be a whole number"),
        std::pair(R"({"bos_token_id": [1, 2]})", "bos_token_id must be one id"),
        std::pair("[]", "m/g.json must be an object"),
        std::pair("{", "m/g.json is not valid JSON: it ends too early")}) {
    try {
      generation_config_from_json(text, "m/g.json", kModel);
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(GenerationConfig, IsWrittenFromTheModelAndReadFromADirectory) {
  const ScratchDirectory scratch;
  EXPECT_EQ(load_generation_config(scratch.path().string(), kModel), std::nullopt);
  scratch.write("generation_config.json", generation_config_to_json(kModel));
  EXPECT_EQ(load_generation_config(scratch.path().string(), kModel),
            (GenerationConfig{.bos_token_id = {}, .eos_token_id = {256, 7}, .pad_token_id = {}}));
}

}  // namespace
}  // namespace braid::config
