// The description of a layer: what planning needs to know about a model, and how to create its layers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "braid/cost/layer_cost.h"
#include "braid/layers/layer.h"
#include "braid/layers/mp_messages.h"
#include "braid/layers/placement.h"
#include "braid/layers/savings.h"
#include "braid/tensor/segment.h"

namespace braid::layers {

/// A model has a list of these in order, the last a LossLayer's. Two layers that declare parameters with the
/// same slices are tied: they share one weight.
struct LayerSpec {
  std::string name;  ///< unique in the model: "model.layers.3.mlp"
  std::string kind;  ///< layers of one kind take the same time and memory: "mlp"

  /// Whether the model may be cut before this layer. The first layer and the loss never form a stage alone,
  /// whatever their value.
  bool may_begin_stage = true;

  /// The decoder layer that this is a part of, by name: "model.layers.3". The parts of one follow one
  /// another, and the first takes, as the last returns, [b, s, ModelSpec::hidden]. Empty: none, so that it is
  /// never recomputed.
  std::string block;
  bool is_attention = false;

  /// Creates the layer, without memory for its parameters (tensor::allocate_segments allocates it). With the
  /// device c10::kMeta the layer need only declare its parameters. A plan calls it several times on every
  /// rank: it must give the same layer, values of its own included, however often and wherever it is called.
  /// Use make_layer, which checks the placement.
  std::function<std::unique_ptr<Layer>(const Placement&)> make;

  /// Arithmetic of the shape's rank per token. Empty: a product with every parameter of two or more
  /// dimensions.
  std::function<cost::LayerWork(const cost::MicrobatchShape&)> work;

  /// What the shape's rank keeps per microbatch. Empty: unknown, and plans report that.
  std::function<cost::SavedBytes(const cost::MicrobatchShape&)> saved_bytes;

  /// What the shape's rank sends within its mp group. Empty: the layer cannot be cut, and make_layer rejects
  /// an mp_degree > 1.
  std::function<MpMessages(const cost::MicrobatchShape&)> messages;

  /// The same layer with these savings besides those that it has. Empty: it has none to offer.
  std::function<LayerSpec(const Savings&)> saving;
};

/// A model before it exists.
struct ModelSpec {
  std::vector<LayerSpec> layers;
  int64_t hidden = 0;       ///< width of what a stage hands to the next: [b, s, hidden]
  int64_t table_bytes = 0;  ///< of tables that all layers of a rank share
};

/// A spec's layer. Throws ConfigError if the layer cannot be cut in this way, and like validate(place).
std::unique_ptr<Layer> make_layer(const LayerSpec& spec, const Placement& place);

/// The same, but it only declares its parameters, for planning: on c10::kMeta and without a communicator.
std::unique_ptr<Layer> make_without_data(const LayerSpec& spec, Placement place = {});

/// The place in the mp group of the rank that `shape` describes, for planning.
Placement placement_of(const cost::MicrobatchShape& shape);

/// `spec.work`, or its default if it is empty.
cost::LayerWork work_of(const LayerSpec& spec, const cost::MicrobatchShape& shape);

/// `spec.messages`, or none if it is empty.
MpMessages messages_of(const LayerSpec& spec, const cost::MicrobatchShape& shape);

/// The layers' parameters under the layers' names, for tensor::lay_out_segments.
std::vector<tensor::LayerParameters> parameters_by_layer(std::span<const std::unique_ptr<Layer>> layers,
                                                         std::span<const LayerSpec> specs);

}  // namespace braid::layers
