// Text from a trained model, one token after another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "braid/config/model_config.h"
#include "braid/train/rank_model.h"

namespace braid::train {

struct SamplingOptions {
  int64_t max_new_tokens = 64;
  double temperature = 0.8;  ///< 0: always the likeliest token
  int64_t top_k = 40;        ///< draw among the k likeliest; 0: among all
  uint64_t seed = 42;
  int64_t vocabulary = 0;  ///< draw only ids below it: a model's vocabulary is often padded beyond its
                           ///< tokenizer's; 0: all of the model's
};

/// A whole model on one device.
struct LoadedModel {
  config::ModelConfig config;
  RankModel model;
  std::vector<int64_t> end_of_text;  ///< ids, of config.json and generation_config.json
  std::vector<std::string> notes;    ///< what is not as the directory's files may lead to expect, in words
};

/// The model of a Hugging Face directory, on the CPU in the dtype of its files' config ("dtype"): float32 or
/// bfloat16. Throws ConfigError or DataError if the directory is no such model, or if it has anything that
/// would change what the model computes and that braid does not carry out.
LoadedModel load_model(const std::filesystem::path& directory);

/// Logits [s, V] in float32 of `tokens` [s].
at::Tensor logits_of(LoadedModel& model, const std::vector<int64_t>& tokens);

/// Continues `prompt` until max_new_tokens are made, the positions are used up, or the model ends the text;
/// calls `on_token` for each new token. Returns the new tokens, an end-of-text token not included. Every
/// token runs the whole text so far through the model: meant for looking at a model, not for serving it.
/// Draws depend on the seed alone. Throws ConfigError for options out of range, a prompt that is empty or
/// longer than the model's positions, tokens outside its vocabulary, and sequences longer than the model's
/// attention is wide.
std::vector<int64_t> generate(LoadedModel& model, const std::vector<int64_t>& prompt,
                              const SamplingOptions& options,
                              const std::function<void(int64_t)>& on_token = {});

}  // namespace braid::train
