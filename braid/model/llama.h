// A Llama as a list of layers, before it exists.
#pragma once

#include "braid/config/model_config.h"
#include "braid/layers/layer_spec.h"

namespace braid::model {

/// The embedding, two layers for each decoder layer (attention, MLP), and the head. A stage may begin with
/// any attention but the first: the embedding stays with the first decoder layer. Parameter names are Hugging
/// Face's if one parameter is one of their tensors; Parameter::slices has the names of the others. In a tied
/// model (tie_word_embeddings) the head's weight has the embedding's name. Throws ConfigError if the
/// configuration is not valid.
layers::ModelSpec llama_spec(const config::ModelConfig& config);

}  // namespace braid::model
