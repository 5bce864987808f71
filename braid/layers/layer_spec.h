// A layer described before it exists: what a plan needs to know of a model, and how to make its layers.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "braid/cost/layer_cost.h"
#include "braid/layers/layer.h"
#include "braid/tensor/segment.h"

namespace braid::layers {

/// A model has a list of these in order, the last a LossLayer's. Two layers that declare parameters with the
/// same slices are tied: they share one weight.
struct LayerSpec {
  std::string name;  ///< unique in the model: "model.layers.3.mlp"
  std::string kind;  ///< layers of one kind take the same time and keep the same: "mlp"

  /// Whether the model may be cut before this layer. The first layer and the loss never stand alone, whatever
  /// they say.
  bool may_begin_stage = true;

  /// The layer without memory for its parameters (tensor::allocate_segments makes it). With the device
  /// c10::kMeta it need only know its parameters.
  std::function<std::unique_ptr<Layer>(c10::Device)> make;

  /// Arithmetic per token. Empty: a product with every parameter that has two dimensions or more.
  std::function<cost::LayerWork(const cost::MicrobatchShape&)> work;

  /// What the layer keeps of a microbatch. Empty: not known, and plans say so.
  std::function<cost::SavedBytes(const cost::MicrobatchShape&)> saved_bytes;
};

/// A model before it exists.
struct ModelSpec {
  std::vector<LayerSpec> layers;
  int64_t hidden = 0;       ///< width of what a stage hands to the next: [b, s, hidden]
  int64_t table_bytes = 0;  ///< of tables that all layers of a rank share
};

/// A layer of a spec that only knows its parameters, for plans.
std::unique_ptr<Layer> make_without_data(const LayerSpec& spec);

/// `spec.work`, or what stands in for it where it is empty.
cost::LayerWork work_of(const LayerSpec& spec, const cost::MicrobatchShape& shape);

/// The layers' parameters under the layers' names, for tensor::lay_out_segments.
std::vector<tensor::LayerParameters> parameters_by_layer(std::span<const std::unique_ptr<Layer>> layers,
                                                         std::span<const LayerSpec> specs);

}  // namespace braid::layers
