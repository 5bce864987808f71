#include "braid/train/weights_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/base/text.h"

namespace braid::train {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

std::map<std::string, std::vector<int64_t>> tensors_of(std::span<const layers::LayerSpec> layers) {
  std::map<std::string, std::vector<int64_t>> tensors;
  for (const layers::LayerSpec& spec : layers) {
    const std::unique_ptr<layers::Layer> layer = layers::make_without_data(spec);
    for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) {
      for (const tensor::TensorSlice& slice : parameter->slices) tensors.emplace(slice.name, slice.whole);
    }
  }
  return tensors;
}

/// The first names of a list, and how many there are beside them.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + escaped(names[i]);
  if (names.size() > kMost) text += cat(" and ", names.size() - kMost, " more");
  return text;
}

/// The number N of "model.layers.N.", or nothing.
std::optional<int64_t> layer_number(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  return parse_int(name.substr(0, name.find('.')));
}

/// What a tensor without a place in a Llama is part of.
std::string meaning_of(std::string_view name, const config::ModelConfig& model) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has(", not in the index)"))
    return "the index and the files are of different models: download all of them again";
  if (layer_number(name).value_or(0) >= model.num_hidden_layers)
    return cat("config.json has num_hidden_layers ", model.num_hidden_layers,
               ": correct it, or use the config.json of these weights");
  if (has("q_norm") || has("k_norm")) return "braid has no norms of queries and keys";
  if (has("expert") || has("block_sparse_moe") || has("mlp.gate.")) return "braid has no experts";
  if (has("lora_")) return "merge the adapter into the weights first";
  if (has("_scale") || has("qweight") || has("qzeros")) return "braid requires unquantised weights";
  if (name.ends_with(".bias")) return "braid's layers have no biases";
  return "config.json or the weights are of another kind of model";
}

/// The keys of config.json that decide a tensor's shape, with their values.
std::string sizes_of(std::string_view name, const config::ModelConfig& model) {
  const std::string hidden = cat("hidden_size ", model.hidden_size);
  if (name.find("q_proj") != name.npos || name.find("o_proj") != name.npos)
    return cat(hidden, ", num_attention_heads ", model.num_attention_heads, ", head_dim ", model.head_dim);
  if (name.find("k_proj") != name.npos || name.find("v_proj") != name.npos)
    return cat(hidden, ", num_key_value_heads ", model.num_key_value_heads, ", head_dim ", model.head_dim);
  if (name.find("mlp.") != name.npos) return cat(hidden, ", intermediate_size ", model.intermediate_size);
  if (name.find("norm") != name.npos) return hidden;
  return cat("vocab_size ", model.vocab_size, ", ", hidden);
}

void require_shape(const checkpoint::HfWeights& weights, const std::string& name,
                   const std::vector<int64_t>& wanted, const config::ModelConfig& model) {
  const std::vector<int64_t> shape = weights.shape(name);
  if (shape == wanted) return;
  const bool transposed = shape.size() == 2 && std::vector<int64_t>{shape[1], shape[0]} == wanted;
  throw DataError(cat(weights.file(name).string(), ": tensor ", printable(name), " has shape ",
                      at::IntArrayRef(shape), ", but by config.json it is ", at::IntArrayRef(wanted), " (",
                      sizes_of(name, model), "); ",
                      transposed ? "it is stored transposed: convert it to PyTorch's order, [outputs, inputs]"
                                 : "use the config.json that belongs to the weights"));
}

}  // namespace

void require_weights_of(const checkpoint::HfWeights& weights, const config::ModelConfig& model,
                        std::span<const layers::LayerSpec> layers) {
  const auto tensors = tensors_of(layers);
  const std::string directory = weights.directory().string();
  std::vector<std::string> used = {kHead};  // may be there, and be tied
  std::vector<std::string> missing;
  for (const auto& [name, shape] : tensors) {
    used.push_back(name);
    if (!weights.contains(name)) missing.push_back(name);
  }
  const std::vector<std::string> left_over = weights.report_unused(used);
  if (!missing.empty()) {
    const auto near = nearest(missing.front(), weights.names());
    throw DataError(
        cat(directory, ": of the ", counted(std::ssize(tensors), "tensor"), " of this model, ",
            missing.size() == 1 ? "one is" : cat(missing.size(), " are"), " not there: ", some_of(missing),
            near ? cat(" (nearest: ", printable(*near), ")") : "",
            "; check that config.json belongs to these weights, and that they are the model's own "
            "(LlamaForCausalLM's), complete"));
  }
  for (const auto& [name, shape] : tensors) require_shape(weights, name, shape, model);
  require<DataError>(
      left_over.empty(), directory, ": has ", counted(std::ssize(left_over), "tensor"),
      " that a Llama by its config.json has no place for: ", some_of(left_over), "; ",
      left_over.empty() ? "" : meaning_of(left_over.front(), model),
      ". Without what the weights have beyond that, the model would be another one; if it has no effect, "
      "remove it from the files");
}

void require_tied_head(const checkpoint::HfWeights& weights, const config::ModelConfig& model) {
  if (!model.tie_word_embeddings || !weights.contains(kHead)) return;
  const std::string cure =
      "; transformers does not tie such weights but computes with both. Set tie_word_embeddings to false to "
      "have both, or remove lm_head.weight from the files";
  const std::string both = cat(weights.file(kHead).string(), ": tie_word_embeddings is true, but ", kHead);
  const std::vector<int64_t> shape = weights.shape(kHead);
  require<DataError>(shape == weights.shape(kEmbedding), both, " has shape ", at::IntArrayRef(shape), " and ",
                     kEmbedding, " ", at::IntArrayRef(weights.shape(kEmbedding)), cure);
  constexpr int64_t kBlockElements = 4 << 20;
  const int64_t rows = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, model.hidden_size));
  for (int64_t begin = 0; begin < shape[0]; begin += rows) {
    const int64_t end = std::min(shape[0], begin + rows);
    const auto read = [&](const char* name) {
      const at::Tensor values = at::empty({end - begin, shape[1]}, at::kDouble);
      weights.read_into({.name = name, .whole = shape, .part = {{begin, end}, {0, shape[1]}}}, values);
      return values;
    };
    require<DataError>(at::equal(read(kHead), read(kEmbedding)), both, " differs from ", kEmbedding,
                       " (in rows ", begin, " to ", end - 1, ")", cure);
  }
}

}  // namespace braid::train
