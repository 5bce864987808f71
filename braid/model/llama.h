// A Llama as a list of layers, and the part of it that one pipeline stage holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "braid/config/model_config.h"
#include "braid/layers/embedding.h"
#include "braid/layers/head.h"
#include "braid/layers/layer.h"

namespace braid::model {

/// Decoder layers [first, end) of the model, with the embedding before them or the head behind them.
struct StageRange {
  int64_t first_layer = 0;
  int64_t end_layer = 0;
  bool has_embedding = false;
  bool has_head = false;
};

/// One stage's layers: two per decoder layer (attention, MLP), the embedding first and the head last where
/// the stage has them.
struct Stage {
  std::vector<std::unique_ptr<layers::Layer>> layers;
  layers::Embedding* embedding = nullptr;  ///< in `layers`, or null
  layers::Head* head = nullptr;            ///< in `layers`, or null

  std::vector<tensor::Parameter*> parameters() const { return layers::parameters_of(layers); }
};

/// The stage's layers with undefined weights, in `options`' dtype and device. Parameter names are Hugging
/// Face's where one parameter is one of theirs; Parameter::rows has the others'. In a tied model
/// (tie_word_embeddings) the head's weight has the embedding's name in `rows`, and so its initial values; on
/// a stage that holds both it also shares the embedding's memory. Their main gradients stay two, and whoever
/// trains adds them up: that keeps the sums the same wherever the model is cut.
Stage make_stage(const config::ModelConfig& config, const StageRange& range, at::TensorOptions options);

/// Makes `head`'s weight the embedding's: the same name in files, and so the same initial values; with an
/// `embedding` on this rank (else null) also the same memory.
void tie(layers::Head& head, layers::Embedding* embedding);

/// Fills `parameters` as Hugging Face's LlamaForCausalLM does: matrices normal with deviation
/// initializer_range, norms one. The values of a tensor depend on its name and the seed alone, so every cut
/// of the model into stages starts from the same weights.
void initialise(const std::vector<tensor::Parameter*>& parameters, const config::ModelConfig& config,
                uint64_t seed);

}  // namespace braid::model
