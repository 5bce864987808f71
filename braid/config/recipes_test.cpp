// The strategies in recipes/ and the command at the top of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "braid/base/text.h"
#include "braid/config/file_value.h"
#include "braid/config/pretrain.h"
#include "braid/config/resolve_model.h"
#include "braid/config/strategy_file.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

std::filesystem::path root() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

// The words of the `braid launch` command in the comment at the top of a file.
std::vector<std::string> command_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with('#');) {
    if (words.empty() && line.find("braid launch") == std::string::npos) continue;
    for (const std::string& word : split(line.substr(1), ' ')) {
      if (!word.empty() && word != "\\") words.push_back(word);
    }
  }
  return words;
}

// A recipe, run as the comment says.
struct Recipe {
  int64_t ranks = 0;
  PretrainCommand command;
};

Recipe recipe(const std::string& name) {
  const std::string path = (root() / "recipes" / (name + ".yaml")).string();
  const std::vector<std::string> words = command_in(read_text_file(path));
  Recipe result;
  std::vector<std::string> arguments;
  bool is_pretrain = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--nproc_per_node") result.ranks = parse_int(words.at(i + 1)).value_or(0);
    if (is_pretrain) arguments.push_back(words[i] == "recipes/" + name + ".yaml" ? path : words[i]);
    is_pretrain = is_pretrain || words[i] == "pretrain";
  }
  result.command = parse_pretrain(arguments, result.ranks);
  return result;
}

// 32 devices unless dp is on; the strategy alone says nothing of where they are.
const std::map<std::string, Strategy>& expected() {
  static const std::map<std::string, Strategy> all = {
      {"mp-sharding-pp", {.mesh = {.mp = 2, .sharding = 4, .pp = 4}, .offloads_optimizer = true}},
      {"mp-pp", {.mesh = {.mp = 8, .pp = 4}, .offloads_optimizer = true}},
      {"sharding-pp-as-written", {.mesh = {.mp = 8, .sharding = 4}, .offloads_optimizer = true}},
      {"sharding-pp", {.mesh = {.sharding = 8, .pp = 4}, .offloads_optimizer = true}},
      {"mp-sharding", {.mesh = {.mp = 8, .sharding = 4}}},
      {"dp2-sharding2-mp2-pp2-vpp2",
       {.mesh = {.mp = 2, .sharding = 2, .pp = 2, .dp = 2}, .chunks_per_rank = 2, .schedule_mode = "VPP"}},
  };
  return all;
}

TEST(Recipes, EachCommandGivesItsStrategy) {
  for (const auto& [name, strategy] : expected()) {
    SCOPED_TRACE(name);
    if (!has_yaml()) {
      EXPECT_ANY_THROW(recipe(name));
      continue;
    }
    const Recipe found = recipe(name);
    const RunOptions& run = found.command.run;
    EXPECT_EQ(run.strategy, strategy);
    EXPECT_EQ(found.ranks, strategy.mesh.world_size());
    EXPECT_EQ(found.ranks, strategy.mesh.dp == 1 ? 32 : 16);
    EXPECT_EQ(run.training.microbatch_sequences, 1);
    EXPECT_EQ(run.training.microbatches, name == "sharding-pp-as-written" ? 1 : 4);
    EXPECT_EQ(run.training.max_steps, 20);
    if (name == "sharding-pp-as-written") {
      EXPECT_THAT(found.command.notes,
                  testing::ElementsAre(testing::HasSubstr("accumulate_steps has no effect: pp_degree is 1")));
    } else {
      EXPECT_THAT(found.command.notes, testing::IsEmpty());
    }
    // Every axis divides what it cuts.
    const ModelConfig model = resolve_model(found.command.options);
    EXPECT_EQ(model.num_attention_heads % strategy.mesh.mp, 0);
    EXPECT_EQ(model.intermediate_size % strategy.mesh.mp, 0);
    EXPECT_GE(model.num_hidden_layers, strategy.mesh.pp * strategy.chunks_per_rank);
  }
}

TEST(Recipes, EachStrategyInTheFolderIsExpected) {
  size_t strategies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root() / "recipes")) {
    const std::string text = read_text_file(entry.path().string());
    if (text.find("sharding_configs:") == std::string::npos) continue;
    ++strategies;
    EXPECT_TRUE(expected().contains(entry.path().stem().string())) << entry.path();
  }
  EXPECT_EQ(strategies, expected().size());
}

// docs/strategy.md has a row for each key, with the default that the table has.
TEST(StrategyDocument, HasEachKeyWithItsDefault) {
  const std::string text = read_text_file((root() / "docs" / "strategy.md").string());
  for (const OptionSpec& spec : strategy_keys()) {
    const std::string key = spec.name.substr(spec.name.find('.') + 1);
    const std::string value = spec.default_values.empty() ? "[]" : spec.default_values.front();
    EXPECT_THAT(text, testing::HasSubstr("\n| `" + key + "` | " + value + " | "));
  }
}

}  // namespace
}  // namespace braid::config
