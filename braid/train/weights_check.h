// Whether a directory's weights are those of the model that its config.json describes.
#pragma once

#include <span>

#include "braid/checkpoint/hf_directory.h"
#include "braid/config/model_config.h"
#include "braid/layers/layer_spec.h"

namespace braid::train {

/// Throws DataError unless `weights` are the tensors of `layers`, the layers of `model`, with their shapes
/// and no others: what is left over (biases, norms of queries and keys, further layers) is part of another
/// model, and to leave it out would change what it computes. A tied model may have its head beside the
/// embedding. Reads the files' headers only.
void require_weights_of(const checkpoint::HfWeights& weights, const config::ModelConfig& model,
                        std::span<const layers::LayerSpec> layers);

/// Throws DataError if the files of a tied model have a head that differs from its embedding. Reads both.
void require_tied_head(const checkpoint::HfWeights& weights, const config::ModelConfig& model);

}  // namespace braid::train
