#include "braid/train/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/base/random.h"
#include "braid/checkpoint/file.h"
#include "braid/config/generation_config.h"
#include "braid/config/presets.h"
#include "braid/model/llama.h"
#include "braid/train/stage_weights.h"
#include "braid/train/weights_check.h"

namespace braid::train {
namespace {

/// The dtype that config.json names; float32 where it names none.
at::ScalarType dtype_in(const std::filesystem::path& directory) {
  constexpr int64_t kLimitBytes = 1 << 20;
  const auto json =
      nlohmann::json::parse(checkpoint::read_text(directory / "config.json", kLimitBytes), nullptr, false);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (json.is_object() && json.contains(key) && json[key] == "bfloat16") return at::kBFloat16;
  }
  return at::kFloat;
}

/// A draw from softmax(logits / temperature) over the top_k likeliest. Ties go to the smaller id.
int64_t draw(const at::Tensor& all_logits_V, const SamplingOptions& options, uint64_t counter) {
  const int64_t vocabulary =
      options.vocabulary == 0 ? all_logits_V.size(0) : std::min(options.vocabulary, all_logits_V.size(0));
  const at::Tensor logits_V = all_logits_V.narrow(0, 0, vocabulary);
  if (options.temperature == 0) return logits_V.argmax().item<int64_t>();
  const int64_t k = options.top_k == 0 ? vocabulary : std::min(options.top_k, vocabulary);
  const auto [values, ids] = at::topk(logits_V.to(at::kDouble), k);
  const at::Tensor cumulative = at::softmax(values / options.temperature, 0).cumsum(0).contiguous();
  const double uniform = philox(options.seed, counter)[0] * 0x1p-32;
  const double* begin = cumulative.const_data_ptr<double>();
  const int64_t index = std::min<int64_t>(std::upper_bound(begin, begin + k, uniform) - begin, k - 1);
  return ids[index].item<int64_t>();
}

}  // namespace

LoadedModel load_model(const std::filesystem::path& directory) {
  std::error_code error;
  require<ConfigError>(std::filesystem::exists(directory / "config.json", error),
                       printable(directory.string()),
                       " holds no config.json: name a directory that braid exported (<output_dir>/hf) or a "
                       "Hugging Face Llama");
  const config::ModelConfig config = config::load_model_config(directory.string());
  LoadedModel loaded = {.config = config, .model = {}, .end_of_text = config.eos_token_id, .notes = {}};
  if (const auto generation = config::load_generation_config(directory.string(), config)) {
    for (const int64_t id : generation->eos_token_id) {
      if (std::ranges::count(loaded.end_of_text, id) == 0) loaded.end_of_text.push_back(id);
    }
  }
  const std::vector<layers::LayerSpec> layers = model::llama_spec(config).layers;
  const checkpoint::HfWeights weights(directory);
  require_weights_of(weights, config, layers);
  require_tied_head(weights, config);
  const at::ScalarType dtype = dtype_in(directory);
  for (const std::string& stored : weights.dtypes()) {
    if (dtype == at::kBFloat16 && stored != "BF16")
      loaded.notes.push_back(
          cat("the weights are ", stored, ", but config.json says bfloat16: computing in bfloat16"));
  }
  if (!config.other_keys.empty()) loaded.notes.push_back(config::other_keys_text(config));
  const std::span<const layers::LayerSpec> whole(layers);
  loaded.model = make_rank_model(std::span(&whole, 1), {}, {}, dtype);
  load_weights(loaded.model.parameters(), weights);
  return loaded;
}

at::Tensor logits_of(LoadedModel& model, const std::vector<int64_t>& tokens) {
  const at::NoGradGuard no_grad;
  at::Tensor x = at::tensor(tokens, at::kLong).unsqueeze(0);
  for (const auto& layer : model.model.stages.front().layers) x = layer->forward(x, nullptr);
  return x.squeeze(0).to(at::kFloat);
}

std::vector<int64_t> generate(LoadedModel& model, const std::vector<int64_t>& prompt,
                              const SamplingOptions& options, const std::function<void(int64_t)>& on_token) {
  const auto positions = static_cast<size_t>(model.config.max_position_embeddings);
  require<ConfigError>(!prompt.empty(), "the prompt is empty: generation starts from at least one token");
  require<ConfigError>(prompt.size() <= positions, "the prompt has ", prompt.size(), " tokens, the model ",
                       positions, " positions: shorten the prompt");
  require<ConfigError>(options.temperature >= 0, "temperature must be >= 0, got ", options.temperature);
  require<ConfigError>(options.top_k >= 0, "top_k must be >= 0, got ", options.top_k);
  for (const int64_t token : prompt) {
    require<ConfigError>(0 <= token && token < model.config.vocab_size, "token ", token,
                         " of the prompt is outside the model's vocabulary of ", model.config.vocab_size,
                         ": is this the model's tokenizer?");
  }
  const auto limit = static_cast<int64_t>(prompt.size()) + options.max_new_tokens;
  config::require_full_attention(model.config, std::min(limit, static_cast<int64_t>(positions)));
  std::vector<int64_t> text = prompt;
  while (text.size() < positions &&
         static_cast<int64_t>(text.size() - prompt.size()) < options.max_new_tokens) {
    const int64_t token = draw(logits_of(model, text)[-1], options, text.size());
    if (std::ranges::count(model.end_of_text, token) > 0) break;
    text.push_back(token);
    if (on_token) on_token(token);
  }
  return {text.begin() + static_cast<int64_t>(prompt.size()), text.end()};
}

}  // namespace braid::train
