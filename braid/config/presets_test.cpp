#include "braid/config/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& name) {
  try {
    load_model_config(name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted: " + name;
}

TEST(Presets, AreValidAndHaveUniqueNames) {
  std::set<std::string> names;
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    EXPECT_NO_THROW(validate(preset.config));
    EXPECT_TRUE(names.insert(preset.name).second);
    for (const std::string& other : preset.other_names) EXPECT_TRUE(names.insert(other).second) << other;
    EXPECT_EQ(find_preset(preset.name), preset.config);
  }
}

TEST(Presets, AreFoundByAnyNameIgnoringCase) {
  EXPECT_EQ(find_preset("FACEBOOK/Llama-7B"), ModelConfig{});
  EXPECT_EQ(find_preset("meta-llama/Llama-2-7b")->rms_norm_eps, 1e-5);
  EXPECT_EQ(find_preset("llama-3-70b")->num_hidden_layers, 80);
  EXPECT_EQ(find_preset("llama-3-70b")->head_dim, 128);
  EXPECT_EQ(find_preset("llama-3.2-1b")->rope_scaling.factor, 32);
  EXPECT_FALSE(find_preset("llama"));
}

TEST(Presets, AModelIsADirectoryAFileOrAPreset) {
  const ScratchDirectory directory;
  const std::string file =
      directory.write("mine/config.json", R"({"model_type": "llama", "num_hidden_layers": 3})");
  EXPECT_EQ(load_model_config(directory.file("mine")).num_hidden_layers, 3);
  EXPECT_EQ(load_model_config(file).num_hidden_layers, 3);
  EXPECT_EQ(load_model_config("llama-13b").num_hidden_layers, 40);
}

TEST(Presets, ErrorsSayWhatWasExpected) {
  const ScratchDirectory directory;
  EXPECT_THAT(error_of("facebook/llama-7"), HasSubstr("did you mean the preset facebook/llama-7b?"));
  EXPECT_THAT(error_of("/no/such/place/at/all"), HasSubstr("Expected a directory with config.json"));
  EXPECT_THAT(error_of(directory.path().string()), HasSubstr("has no config.json"));
  EXPECT_THAT(error_of(""), HasSubstr("no model ''"));
  directory.write("bad/config.json", "{");
  EXPECT_THAT(error_of(directory.file("bad")), HasSubstr("bad/config.json is not valid JSON"));
}

}  // namespace
}  // namespace braid::config
