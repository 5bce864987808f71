#include "braid/config/option_json.h"

#include <gtest/gtest.h>

#include <map>

#include "braid/config/json.h"

namespace braid::config {
namespace {

TEST(OptionJson, EveryValueHasItsType) {
  const PretrainOptions options = {.learning_rate = 5e-5,
                                   .no_recompute_layers = {1, 2},
                                   .max_steps = 20,
                                   .output_dir = "a \"b\"\\\xff",
                                   .report_to = {"wandb"}};
  std::map<std::string, std::string> values;
  for (const auto& [name, json] : json_values(options)) values[name] = json;
  EXPECT_EQ(values["learning_rate"], "5e-05");
  EXPECT_EQ(values["max_steps"], "20");
  EXPECT_EQ(values["do_train"], "false");
  EXPECT_EQ(values["no_recompute_layers"], "[1, 2]");
  EXPECT_EQ(values["report_to"], "[\"wandb\"]");
  EXPECT_EQ(values["eval_steps"], "null");
  for (const auto& [name, json] : values) EXPECT_TRUE(nlohmann::json::accept(json)) << name << ": " << json;
  EXPECT_EQ(nlohmann::json::parse(values["output_dir"]), "a \"b\"\\\xef\xbf\xbd") << "not UTF-8: replaced";
}

}  // namespace
}  // namespace braid::config
