#include "braid/train/recomputation.h"

#include <algorithm>
#include <set>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/layers/recomputed.h"

namespace braid::train {
namespace {

using config::Recomputation;
using layers::LayerSpec;

std::span<const LayerSpec> parts_of(std::span<const LayerSpec> layers, const tensor::Range& range) {
  return layers.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
}

LayerSpec with_core_recomputed(const LayerSpec& attention) {
  require<ConfigError>(static_cast<bool>(attention.saving), "recomputation of core_attn: layer ",
                       attention.name, " has no such variant (LayerSpec::saving)");
  return attention.saving({.recomputes_core = true});
}

/// The layers of one decoder layer.
std::vector<LayerSpec> recompute(std::span<const LayerSpec> parts, int64_t hidden,
                                 Recomputation recomputation) {
  std::vector<LayerSpec> result(parts.begin(), parts.end());
  if (recomputation == Recomputation::kNone) return result;
  if (recomputation == Recomputation::kFull) return {layers::recomputed_spec(std::move(result), hidden)};
  require<ConfigError>(std::ranges::any_of(parts, &LayerSpec::is_attention), "recomputation of ",
                       name_of(recomputation), ": decoder layer ", parts.front().block,
                       " has no attention (LayerSpec::is_attention): use full");
  for (LayerSpec& part : result) {
    if (!part.is_attention) continue;
    part = recomputation == Recomputation::kCoreAttention ? with_core_recomputed(part)
                                                          : layers::recomputed_spec({part}, hidden);
  }
  return result;
}

}  // namespace

std::vector<Block> blocks_of(std::span<const LayerSpec> layers) {
  std::vector<Block> blocks;
  std::set<std::string> known;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    if (layer.block.empty()) continue;
    const auto index = static_cast<int64_t>(i);
    require<ConfigError>(i + 1 < layers.size(), "layer ", layer.name,
                         " ends the model and cannot be part of the decoder layer ", layer.block,
                         " (LayerSpec::block)");
    if (!blocks.empty() && blocks.back().name == layer.block && blocks.back().layers.end == index) {
      ++blocks.back().layers.end;
      continue;
    }
    require<ConfigError>(known.insert(layer.block).second, "the parts of decoder layer ", layer.block,
                         " (LayerSpec::block) must follow one another, but ", layer.name, " stands apart");
    blocks.push_back({.name = layer.block, .layers = {.begin = index, .end = index + 1}});
  }
  return blocks;
}

layers::ModelSpec with_early_gradients(const config::Strategy& strategy, const layers::ModelSpec& model) {
  if (!strategy.early_weight_gradients) return model;
  layers::ModelSpec result = model;
  bool has_any = false;
  for (LayerSpec& layer : result.layers) {
    if (!layer.saving) continue;
    layer = layer.saving({.early_gradients = true});
    has_any = true;
  }
  require<ConfigError>(has_any,
                       "early_weight_gradients: no layer of the model has such a variant "
                       "(LayerSpec::saving)");
  return result;
}

std::vector<Recomputation> recomputation_of(const config::Strategy& strategy,
                                            const layers::ModelSpec& model) {
  if (strategy.recompute == Recomputation::kNone) return {};
  const std::vector<Block> blocks = blocks_of(model.layers);
  require<ConfigError>(!blocks.empty(), "recomputation of ", name_of(strategy.recompute),
                       ": the model has no decoder layers: name them in LayerSpec::block");
  std::vector<Recomputation> result(blocks.size(), strategy.recompute);
  for (const int64_t layer : strategy.no_recompute_layers) {
    require<ConfigError>(0 <= layer && layer < std::ssize(blocks), "no_recompute_layers names layer ", layer,
                         ", but the model has ", counted(std::ssize(blocks), "decoder layer"),
                         ", counted from 0");
    result[static_cast<size_t>(layer)] = Recomputation::kNone;
  }
  return result;
}

layers::ModelSpec recompute_blocks(const layers::ModelSpec& model, std::span<const Recomputation> of_blocks) {
  if (of_blocks.empty()) return model;
  const std::vector<Block> blocks = blocks_of(model.layers);
  require<InternalError>(blocks.size() == of_blocks.size(), "got recomputation of ", of_blocks.size(), " of ",
                         blocks.size(), " decoder layers");
  layers::ModelSpec result = model;
  result.layers.clear();
  int64_t end = 0;
  const auto copy_until = [&](int64_t begin) {
    result.layers.insert(result.layers.end(), model.layers.begin() + end, model.layers.begin() + begin);
  };
  for (size_t i = 0; i < blocks.size(); ++i) {
    copy_until(blocks[i].layers.begin);
    for (LayerSpec& layer : recompute_block(model, blocks[i], of_blocks[i]))
      result.layers.push_back(std::move(layer));
    end = blocks[i].layers.end;
  }
  copy_until(std::ssize(model.layers));
  return result;
}

std::vector<LayerSpec> recompute_block(const layers::ModelSpec& model, const Block& block,
                                       Recomputation recomputation) {
  return recompute(parts_of(model.layers, block.layers), model.hidden, recomputation);
}

std::vector<Recomputation> granularities_of(std::span<const LayerSpec> layers, const Block& block) {
  std::vector<Recomputation> result = {Recomputation::kNone};
  const std::span<const LayerSpec> parts = parts_of(layers, block.layers);
  if (std::ranges::any_of(parts, &LayerSpec::is_attention)) {
    const bool has_cores = std::ranges::all_of(
        parts, [](const LayerSpec& part) { return !part.is_attention || static_cast<bool>(part.saving); });
    if (has_cores) result.push_back(Recomputation::kCoreAttention);
    result.push_back(Recomputation::kFullAttention);
  }
  result.push_back(Recomputation::kFull);
  return result;
}

std::vector<LayerSpec> layers_of_all_kinds(const config::Strategy& strategy, const layers::ModelSpec& model) {
  const layers::ModelSpec plain = with_early_gradients(strategy, model);
  const std::vector<Recomputation> of_blocks = recomputation_of(strategy, plain);
  if (strategy.recompute != Recomputation::kAuto) return recompute_blocks(plain, of_blocks).layers;
  std::vector<LayerSpec> result = plain.layers;
  for (const Block& block : blocks_of(plain.layers)) {
    for (const Recomputation granularity : granularities_of(plain.layers, block)) {
      for (LayerSpec& layer : recompute_block(plain, block, granularity)) result.push_back(std::move(layer));
    }
  }
  return result;
}

int64_t index_in(const layers::ModelSpec& recomputing, const LayerSpec& layer) {
  const auto found = std::ranges::find_if(recomputing.layers, [&](const LayerSpec& other) {
    return other.name == layer.name || (!layer.block.empty() && other.name == layer.block);
  });
  require<InternalError>(found != recomputing.layers.end(), "layer ", layer.name, " got lost");
  return found - recomputing.layers.begin();
}

std::vector<std::string> anchors_in(const layers::ModelSpec& recomputing, const layers::ModelSpec& model,
                                    const std::vector<std::string>& anchors) {
  std::vector<std::string> result;
  for (const std::string& anchor : anchors) {
    const auto found = std::ranges::find(model.layers, anchor, &LayerSpec::name);
    require<ConfigError>(found != model.layers.end(), "segment anchor ", anchor, ": the model has no layer ",
                         anchor, "; its layers are ", model.layers.front().name, ", ", model.layers[1].name,
                         ", ..., ", model.layers.back().name);
    if (std::ranges::count(recomputing.layers, anchor, &LayerSpec::name) > 0) {
      result.push_back(anchor);
      continue;
    }
    const bool is_first = found == model.layers.begin() || std::prev(found)->block != found->block;
    require<ConfigError>(
        is_first, "segment anchor ", anchor, " lies within ", found->block,
        ", which is recomputed whole: begin segments with the first layer of a decoder layer");
    result.push_back(found->block);
  }
  return result;
}

std::string_view name_of(Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::kNone:
      return "none";
    case Recomputation::kCoreAttention:
      return "core_attn";
    case Recomputation::kFullAttention:
      return "full_attn";
    case Recomputation::kFull:
      return "full";
    case Recomputation::kAuto:
      return "auto";
  }
  return "";
}

}  // namespace braid::train
