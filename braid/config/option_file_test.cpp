#include "braid/config/option_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/config/text_file.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

std::string flat(const std::vector<Assignment>& assignments) {
  std::string text;
  for (const Assignment& given : assignments) {
    text += given.label + " =";
    for (const std::string& value : given.values) text += " [" + value + "]";
    text += "\n";
  }
  return text;
}

std::vector<Assignment> json_options(std::string_view text) {
  return options_of(parse_json_value(text, "r.json"));
}

std::vector<Assignment> yaml_options(std::string_view text) {
  return options_of(parse_yaml_value(text, "r.yaml"));
}

TEST(OptionFile, JsonGivesNamesValuesAndLines) {
  EXPECT_EQ(flat(json_options(R"({
    "max_steps": 20, "learning_rate": 1e-4,
    "bf16": true,
    "split": "949,50,1",
    "nan":
      -3, "\u0069nput": ["a", 2]
  })")),
            "r.json:2: max_steps = [20]\nr.json:2: learning_rate = [1e-4]\nr.json:3: bf16 = [true]\n"
            "r.json:4: split = [949,50,1]\nr.json:5: nan = [-3]\nr.json:6: input = [a] [2]\n");
  EXPECT_EQ(flat(json_options("{}")), "");
}

TEST(OptionFile, JsonErrors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\n\"a\": {\"b\": 1}}", "r.json:2: a must be a single value or a list of them, got a map"},
      {"{\"a\": [[1]]}",
       "r.json:1: a must be a single value or a list of them, got a list with a list in it"},
      {"{\"a\": null}", "r.json:1: a has no value; omit it to keep the default"},
      {"{\"a\": 1,\n\"a\": 2}", "r.json:2: a is given twice; keep one"},
      {"[1]", "r.json:1: expected names and values, as in name: value, got a list"},
      {"{\"a\": 1,}", "r.json is not valid JSON: line 1, column 9: unexpected \"}\""},
      {"", "r.json is not valid JSON: it is empty"},
      {std::string(100000, '['), "r.json is nested deeper than 32 levels"},
      {"{\"a\": [" + std::string(20000, '1') + "]}", "r.json is not valid JSON: a number is too large"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of([&, &text = text] { json_options(text); }), HasSubstr(message));
  }
}

TEST(OptionFile, AllErrorsOfAFileComeAtOnce) {
  EXPECT_EQ(
      error_of([&] { json_options("{\"a\": null,\n\"b\": 1,\n\"b\": {}}"); }),
      "3 errors:\n  r.json:1: a has no value; omit it to keep the default\n  r.json:3: b is given twice; "
      "keep one\n  r.json:3: b must be a single value or a list of them, got a map");
}

TEST(OptionFile, YamlGivesNamesValuesAndLines) {
  const std::string text =
      "# a run\nmax_steps: 20\nlearning_rate: 1e-4  # peak\nbf16: yes\nsplit: \"949,50,1\"\ninput: [a, 2]\n";
  if (!has_yaml()) {
    EXPECT_THAT(error_of([&] { yaml_options(text); }), HasSubstr("BRAID_WITH_YAML=ON"));
    return;
  }
  EXPECT_EQ(flat(yaml_options(text)),
            "r.yaml:2: max_steps = [20]\nr.yaml:3: learning_rate = [1e-4]\nr.yaml:4: bf16 = [yes]\n"
            "r.yaml:5: split = [949,50,1]\nr.yaml:6: input = [a] [2]\n");
  EXPECT_EQ(flat(yaml_options("")), "");
  EXPECT_EQ(flat(yaml_options("# nothing\n")), "");
}

// Each level holds the one before it twice: few bytes, many values.
std::string doubled_aliases(int levels) {
  std::string text = "a0: &a0 [1]\n";
  for (int i = 1; i <= levels; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last + ", " + last + "]\n";
  }
  return text;
}

TEST(OptionFile, YamlErrors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a:\n  b: 1\n", "r.yaml:1: a must be a single value or a list of them, got a map"},
      {"x: 1\na: [[1]]\n",
       "r.yaml:2: a must be a single value or a list of them, got a list with a list in it"},
      {"a:\n", "r.yaml:1: a has no value"},
      {"a: ~\n", "r.yaml:1: a has no value"},
      {"a: 1\na: 2\n", "r.yaml:2: a is given twice"},
      {"- a\n", "r.yaml:1: expected names and values, as in name: value, got a list"},
      {"[1]: 2\n", "option names must be plain strings"},
      {"a: 1\n---\na: 2\n", "r.yaml holds 2 YAML documents"},
      {"a: 1\nb: [2\n", "not valid YAML"},
      {std::string(100000, '['), "not valid YAML"},
      {doubled_aliases(28), "r.yaml holds more than 10000 values"},
      {std::string(40, '[') + std::string(40, ']'), "r.yaml is nested deeper than 32 levels"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of([&, &text = text] { yaml_options(text); }),
                HasSubstr(has_yaml() ? message : "BRAID_WITH_YAML=ON"));
  }
}

TEST(OptionFile, TheExtensionSelectsTheFormat) {
  const ScratchDirectory directory;
  EXPECT_EQ(read_option_file(directory.write("run.json", "{\"a\": 1}")).size(), 1U);
  if (has_yaml()) {
    EXPECT_EQ(read_option_file(directory.write("run.yml", "a: 1\nb: 2\n")).size(), 2U);
    EXPECT_EQ(read_option_file(directory.write("run.yaml", "a: 1\n")).size(), 1U);
  }
  EXPECT_THAT(error_of([&] { read_option_file(directory.write("run.toml", "")); }),
              HasSubstr("its name must end in .yaml, .yml or .json"));
  EXPECT_THAT(error_of([&] { read_option_file(directory.file("none.json")); }), HasSubstr("does not exist"));
}

TEST(TextFile, RejectsDirectoriesAndLargeFiles) {
  const ScratchDirectory directory;
  EXPECT_THAT(error_of([&] { read_text_file(directory.path().string()); }),
              HasSubstr("is not a regular file"));
  const std::string large = directory.write("large", "");
  std::filesystem::resize_file(large, (uintmax_t{64} << 20) + 1);
  EXPECT_THAT(error_of([&] { read_text_file(large); }), HasSubstr("has 67108865 bytes"));
  EXPECT_EQ(read_text_file(directory.write("text", std::string("a\0b\n", 4))), std::string("a\0b\n", 4));
}

}  // namespace
}  // namespace braid::config
