#include "braid/config/resolve_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ResolveModel, OverridesUpdateDerivedSizes) {
  const ModelConfig config = resolve_model({.model_name_or_path = "llama-7b",
                                            .vocab_size = 100,
                                            .hidden_size = 96,
                                            .num_hidden_layers = 2,
                                            .num_attention_heads = 6,
                                            .rope_scaling = R"({"rope_type": "linear", "factor": 2})",
                                            .tie_word_embeddings = true,
                                            .eos_token_id = 9,
                                            .max_seq_length = 16});
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_key_value_heads, 6);
  EXPECT_EQ(config.rope_scaling.factor, 2);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.eos_token_id, (std::vector<int64_t>{9}));
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_THROW(resolve_model({.model_name_or_path = "llama-7b", .num_attention_heads = 5}), ConfigError);
}

TEST(ResolveModel, AModelFromScratchFitsTheDataAndTheTokenizer) {
  const PretrainOptions options{.model_name_or_path = "llama-tiny", .max_seq_length = 300};
  EXPECT_EQ(resolve_model(options, TokenizerIds{.pieces = 1000}).vocab_size, 1024);
  EXPECT_EQ(resolve_model(options, TokenizerIds{.pieces = 1025}).vocab_size, 1152);
  EXPECT_EQ(resolve_model(options).max_position_embeddings, 300);
  PretrainOptions small = options;
  small.vocab_size = 500;
  EXPECT_EQ(resolve_model(small, TokenizerIds{.pieces = 500}).vocab_size, 500);
  EXPECT_THAT(error_of([&] { resolve_model(small, TokenizerIds{.pieces = 501}); }),
              HasSubstr("the tokenizer has 501 pieces, but the model's vocab_size is 500"));
}

TEST(ResolveModel, WeightsToContinueFromDetermineTheShapes) {
  const ScratchDirectory directory;
  directory.write("m/config.json",
                  R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256,
                      "max_position_embeddings": 128})");
  PretrainOptions options{
      .model_name_or_path = directory.file("m"), .continue_training = true, .max_seq_length = 128};
  EXPECT_EQ(resolve_model(options, TokenizerIds{.pieces = 200}).vocab_size, 256);
  EXPECT_THAT(error_of([&] { resolve_model(options, TokenizerIds{.pieces = 300}); }),
              HasSubstr("the tokenizer has 300 pieces"));
  options.hidden_size = 64;
  options.rms_norm_eps = 1e-5;
  EXPECT_EQ(resolve_model(options).rms_norm_eps, 1e-5);
  options.hidden_size = 128;
  EXPECT_THAT(
      error_of([&] { resolve_model(options); }),
      HasSubstr("--hidden_size 128 conflicts with the weights of --model_name_or_path, which have 64"));
  options.hidden_size.reset();
  options.max_seq_length = 129;
  EXPECT_THAT(error_of([&] { resolve_model(options); }), HasSubstr("--max_seq_length 129 is longer than"));
  EXPECT_THAT(error_of([] { resolve_model({.model_name_or_path = "llama-7b", .continue_training = true}); }),
              HasSubstr("to be a directory with weights, got 'llama-7b'"));
}

TEST(ResolveModel, TheTokenizersIdsAreTheModels) {
  const PretrainOptions options{.model_name_or_path = "llama-3-8b", .vocab_size = 257, .max_seq_length = 16};
  std::vector<std::string> notes;
  const ModelConfig bytes = resolve_model(options, TokenizerIds{.pieces = 257, .eos = 256}, &notes);
  EXPECT_EQ(bytes.bos_token_id, std::nullopt);
  EXPECT_EQ(bytes.eos_token_id, (std::vector<int64_t>{256}));
  EXPECT_THAT(notes, ElementsAre("bos_token_id is none, the tokenizer's, instead of the model's 128000",
                                 "eos_token_id is 256, the tokenizer's, instead of the model's 128001"));

  // Without a tokenizer, ids beyond the vocabulary stand for nothing.
  notes.clear();
  const ModelConfig tokens = resolve_model(options, std::nullopt, &notes);
  EXPECT_EQ(tokens.bos_token_id, std::nullopt);
  EXPECT_THAT(tokens.eos_token_id, IsEmpty());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("the model's own, 128000, is outside the vocabulary of 257"),
                                 HasSubstr("of eos_token_id 128001 those outside")));

  PretrainOptions given = options;
  given.bos_token_id = 3;
  given.eos_token_id = 4;
  notes.clear();
  const ModelConfig chosen = resolve_model(given, TokenizerIds{.pieces = 257, .bos = 1, .eos = 2}, &notes);
  EXPECT_EQ(chosen.bos_token_id, 3);
  EXPECT_EQ(chosen.eos_token_id, (std::vector<int64_t>{4}));
  EXPECT_THAT(notes, IsEmpty());
  given.eos_token_id = 257;
  EXPECT_THAT(error_of([&] { resolve_model(given); }),
              HasSubstr("eos_token_id 257 is outside the vocabulary"));
}

TEST(ResolveModel, WeightsKeepTheirIdsWhereTheTokenizerAgrees) {
  const ScratchDirectory directory;
  directory.write("m/config.json", R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                                       "vocab_size": 256, "bos_token_id": 1, "eos_token_id": [2, 9]})");
  const PretrainOptions options{
      .model_name_or_path = directory.file("m"), .continue_training = true, .max_seq_length = 128};
  std::vector<std::string> notes;
  const ModelConfig same = resolve_model(options, TokenizerIds{.pieces = 256, .bos = 1, .eos = 9}, &notes);
  EXPECT_EQ(same.eos_token_id, (std::vector<int64_t>{2, 9}));
  EXPECT_THAT(notes, IsEmpty());
  const ModelConfig other = resolve_model(options, TokenizerIds{.pieces = 256, .bos = 1, .eos = 5}, &notes);
  EXPECT_EQ(other.eos_token_id, (std::vector<int64_t>{5}));
  EXPECT_THAT(notes, ElementsAre("eos_token_id is 5, the tokenizer's, instead of the model's 2 9"));

  directory.write("m/generation_config.json", R"({"eos_token_id": 256})");
  EXPECT_THAT(
      error_of([&] { resolve_model(options); }),
      HasSubstr("m/generation_config.json: eos_token_id 256 is outside the model's vocabulary of 256"));
}

TEST(ResolveModel, SaysWhatItChanges) {
  std::vector<std::string> notes;
  resolve_model({.model_name_or_path = "llama-tiny", .max_seq_length = 300},
                TokenizerIds{.pieces = 1025, .bos = 1, .eos = 2}, &notes);
  EXPECT_THAT(notes,
              ElementsAre("max_position_embeddings is 300, as --max_seq_length needs, instead of the "
                          "model's 256",
                          "vocab_size is 1152, the tokenizer's 1025 pieces rounded up to a multiple of "
                          "128, instead of the model's 1024"));
  notes.clear();
  resolve_model({.model_name_or_path = "llama-tiny", .max_seq_length = 16},
                TokenizerIds{.pieces = 257, .bos = 1, .eos = 2}, &notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("of which the tokenizer uses 257: --vocab_size 384")));

  const ScratchDirectory directory;
  directory.write("m/config.json", R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                                       "sliding_window": 100})");
  PretrainOptions options{.model_name_or_path = directory.file("m"), .continue_training = true};
  options.max_seq_length = 100;
  options.rope_theta = 5e5;
  notes.clear();
  resolve_model(options, std::nullopt, &notes);
  EXPECT_THAT(notes, ElementsAre("rope_theta is 5e+05 instead of the 10000 of the weights"));
  options.max_seq_length = 101;
  EXPECT_THAT(error_of([&] { resolve_model(options); }),
              HasSubstr("sliding_window is 100, but sequences have up to 101 tokens"));
}

}  // namespace
}  // namespace braid::config
