#include "braid/cli/export_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const config::ModelConfig kModel = {.vocab_size = 300, .bos_token_id = 1, .eos_token_id = {2}};

std::vector<std::string> names_of(const std::vector<checkpoint::SideFile>& files) {
  std::vector<std::string> names;
  for (const checkpoint::SideFile& file : files) names.push_back(file.name);
  return names;
}

TEST(ExportFiles, ATokenizerOfItsOwnIsWrittenForTransformers) {
  std::vector<std::string> notes;
  const auto bytes = data::make_tokenizer("byte");
  const auto files = export_files({.model_name_or_path = "llama-tiny"}, bytes.get(), kModel, false, notes);
  EXPECT_THAT(names_of(files),
              ElementsAre("tokenizer.json", "tokenizer_config.json", "generation_config.json"));
  EXPECT_THAT(files.back().content, HasSubstr("\"eos_token_id\": 2"));
  EXPECT_THAT(notes, IsEmpty());
  // Without a tokenizer nothing is known of one.
  EXPECT_THAT(names_of(export_files({.model_name_or_path = "llama-tiny"}, nullptr, kModel, {}, notes)),
              ElementsAre("generation_config.json"));
}

TEST(ExportFiles, WhatCameWithTheWeightsGoesOutWhileItHolds) {
  const ScratchDirectory directory;
  directory.write("tokenizer.json", "{\"a\": 1}");
  directory.write("tokenizer_config.json", "{\"add_bos_token\": true}");
  directory.write("chat_template.jinja", "{{ bos_token }}");
  directory.write("generation_config.json", R"({"bos_token_id": 1, "eos_token_id": [2, 9], "top_p": 0.9})");
  directory.write("README.md", "not part of the model");
  const config::PretrainOptions options{.model_name_or_path = directory.path().string(),
                                        .continue_training = true};
  std::vector<std::string> notes;
  const auto files = export_files(options, nullptr, kModel, true, notes);
  EXPECT_THAT(names_of(files), ElementsAre("tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                           "generation_config.json"));
  EXPECT_EQ(files[0].content, "{\"a\": 1}");
  EXPECT_THAT(files.back().content, HasSubstr("top_p"));
  EXPECT_THAT(notes, IsEmpty());

  // The data say otherwise: the files stay as they came, and that is said.
  export_files(options, nullptr, kModel, false, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("has add_bos_token true, but the documents of --input_dir do not "
                                           "begin with the BOS id")));

  config::ModelConfig other = kModel;
  other.eos_token_id = {7};
  EXPECT_THAT(export_files(options, nullptr, other, true, notes).back().content,
              testing::Not(HasSubstr("top_p")));
  // From scratch, only the sizes are the directory's.
  config::PretrainOptions scratch = options;
  scratch.continue_training = false;
  EXPECT_THAT(names_of(export_files(scratch, nullptr, kModel, true, notes)),
              ElementsAre("generation_config.json"));
}

TEST(ExportFiles, FilesThatAreNotWhatTheySeemAreRejected) {
  const ScratchDirectory directory;
  directory.write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  std::vector<std::string> notes;
  const config::PretrainOptions options{.model_name_or_path = directory.path().string(),
                                        .continue_training = true};
  EXPECT_THROW(export_files(options, nullptr, kModel, true, notes), DataError);
}

TEST(AddsBos, IsWhatTheModelsTokenizerConfigSays) {
  const ScratchDirectory directory;
  EXPECT_FALSE(adds_bos(directory.path()));
  for (const auto& [text, expected] :
       {std::pair("{\"add_bos_token\": true}", true), std::pair("{\"add_bos_token\": false}", false),
        std::pair("{}", false)}) {
    directory.write("tokenizer_config.json", text);
    EXPECT_EQ(adds_bos(directory.path()), expected) << text;
  }
  directory.write("tokenizer_config.json", "{\"add_bos_token\":");
  EXPECT_THROW(adds_bos(directory.path()), DataError);
}

}  // namespace
}  // namespace braid::cli
