// A model whose decoder layers compute again in the backward pass what they do not keep.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/strategy.h"
#include "braid/layers/layer_spec.h"
#include "braid/tensor/tensor_slice.h"

namespace braid::train {

/// A decoder layer.
struct Block {
  std::string name;      ///< LayerSpec::block
  tensor::Range layers;  ///< its parts
};

/// A model's decoder layers, in order. Throws ConfigError if the parts of one do not follow one another, or
/// if the loss is one.
std::vector<Block> blocks_of(std::span<const layers::LayerSpec> layers);

/// `model`, with early gradients if the strategy says so. Throws ConfigError if no layer can have them.
layers::ModelSpec with_early_gradients(const config::Strategy& strategy, const layers::ModelSpec& model);

/// What each decoder layer of `model` recomputes, or may (kAuto); empty if none does. Throws ConfigError if
/// there is no such layer, and for layers in no_recompute_layers that the model does not have.
std::vector<config::Recomputation> recomputation_of(const config::Strategy& strategy,
                                                    const layers::ModelSpec& model);

/// `model` with `of_blocks` carried out: as many as it has decoder layers, or none. Whole decoder layers
/// become one layer, of the decoder layer's name; others keep their names. Throws ConfigError for a decoder
/// layer without an attention that can do so.
layers::ModelSpec recompute_blocks(const layers::ModelSpec& model,
                                   std::span<const config::Recomputation> of_blocks);

/// The layers of a block of `model` with a granularity other than kAuto.
std::vector<layers::LayerSpec> recompute_block(const layers::ModelSpec& model, const Block& block,
                                               config::Recomputation recomputation);

/// The granularities that all of a block's layers support, none and full among them, the cheapest first.
std::vector<config::Recomputation> granularities_of(std::span<const layers::LayerSpec> layers,
                                                    const Block& block);

/// Layers of every kind that there is in `model` with the strategy's recomputation, whichever kAuto chooses.
std::vector<layers::LayerSpec> layers_of_all_kinds(const config::Strategy& strategy,
                                                   const layers::ModelSpec& model);

/// The layer of `recomputing`, which recompute_blocks made of another model, that is or begins with that
/// model's `layer`.
int64_t index_in(const layers::ModelSpec& recomputing, const layers::LayerSpec& layer);

/// Names of layers of `model` as names of `recomputing`'s, which recompute_blocks made of it. Throws
/// ConfigError for one that is no layer of `model`, or lies within a layer of the other.
std::vector<std::string> anchors_in(const layers::ModelSpec& recomputing, const layers::ModelSpec& model,
                                    const std::vector<std::string>& anchors);

/// "full", as --recompute_granularity says it; "none".
std::string_view name_of(config::Recomputation recomputation);

}  // namespace braid::train
