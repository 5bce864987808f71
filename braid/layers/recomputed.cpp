#include "braid/layers/recomputed.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::layers {
namespace {

/// "model.layers.3" of "model.layers.3.self_attn" and "model.layers.3.mlp".
std::string common_name(const std::vector<LayerSpec>& parts) {
  if (parts.size() == 1 || parts.front().block.empty()) return parts.front().name;
  return parts.front().block;
}

std::string kind_of(const std::vector<LayerSpec>& parts) {
  std::string kinds = "recomputed ";
  for (const LayerSpec& part : parts) kinds += (&part == &parts.front() ? "" : " + ") + part.kind;
  return kinds;
}

cost::LayerWork sum_of_work(const std::vector<LayerSpec>& parts, const cost::MicrobatchShape& shape) {
  // F is a third of what a layer reads and writes, as of its products.
  constexpr double kWithForwardAgain = 4.0 / 3;
  cost::LayerWork sum;
  for (const LayerSpec& part : parts) {
    const cost::LayerWork work = work_of(part, shape);
    sum.forward_flops += work.forward_flops;
    sum.recomputed_flops += work.recomputed_flops + work.forward_flops;
    sum.early_gradient_flops += work.early_gradient_flops;
    sum.activation_elements += kWithForwardAgain * work.activation_elements;
    sum.output_flops = work.output_flops;
  }
  sum.recomputed_flops -= sum.output_flops;
  return sum;
}

cost::SavedBytes saved_bytes_of(const std::vector<LayerSpec>& parts, int64_t hidden,
                                const cost::MicrobatchShape& shape) {
  cost::SavedBytes sum = {.forward_to_backward = shape.own_tokens() * hidden * shape.element_bytes};
  for (const LayerSpec& part : parts) sum.backward_to_weight += part.saved_bytes(shape).backward_to_weight;
  return sum;
}

MpMessages sum_of_messages(const std::vector<LayerSpec>& parts, const cost::MicrobatchShape& shape) {
  MpMessages sum;
  for (const LayerSpec& part : parts) {
    const MpMessages messages = part.messages(shape);
    add_traffic(sum.forward, messages.forward);
    add_traffic(sum.recompute, &part == &parts.back() ? messages.recompute : messages.forward);
    add_traffic(sum.backward_input, messages.backward_input);
    add_traffic(sum.backward_weight, messages.backward_weight);
    add_traffic(sum.backward, messages.backward);
  }
  add_traffic(sum.backward_input, sum.recompute);
  add_traffic(sum.backward, sum.recompute);
  return {.forward = sum.forward,
          .recompute = sum.forward,
          .backward_input = sum.backward_input,
          .backward_weight = sum.backward_weight,
          .backward = sum.backward};
}

}  // namespace

std::vector<const at::Tensor*> RecomputedSaved::tensors() const {
  std::vector<const at::Tensor*> all = {&x};
  for (const std::unique_ptr<Saved>& layer : layers) {
    if (!layer) continue;
    const std::vector<const at::Tensor*> held = layer->tensors();
    all.insert(all.end(), held.begin(), held.end());
    all.push_back(&layer->result);
  }
  return all;
}

Recomputed::Recomputed(std::vector<std::unique_ptr<Layer>> layers) : layers_(std::move(layers)) {
  require<InternalError>(!layers_.empty(), "there is nothing to recompute");
}

at::Tensor Recomputed::forward(const at::Tensor& x, Saved* saved) {
  if (saved != nullptr) static_cast<RecomputedSaved*>(saved)->x = x;
  at::Tensor activation = x;
  for (const std::unique_ptr<Layer>& layer : layers_) activation = layer->forward(activation, nullptr);
  return activation;
}

void Recomputed::begin_forward(const at::Tensor& x, Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  kept.x = x;
  at::Tensor activation = x;
  for (size_t i = 0; i + 1 < layers_.size(); ++i) activation = layers_[i]->forward(activation, nullptr);
  layers_.back()->begin_forward(activation, *kept.layers.emplace_back(layers_.back()->make_saved()));
}

at::Tensor Recomputed::end_forward(Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  at::Tensor y = layers_.back()->end_forward(*kept.layers.back());
  kept.layers.clear();
  return y;
}

void Recomputed::recompute_layers(RecomputedSaved& kept) {
  at::Tensor activation = std::exchange(kept.x, {});
  for (const std::unique_ptr<Layer>& layer : layers_) {
    Saved& saved = *kept.layers.emplace_back(layer->make_saved());
    if (layer == layers_.back()) {
      layer->recompute(activation, saved);
    } else {
      activation = layer->forward(activation, &saved);
    }
  }
}

at::Tensor Recomputed::backward_input(const at::Tensor& dy, Saved& saved) {
  begin_backward_input(dy, saved);
  return end_backward_input(saved);
}

void Recomputed::begin_backward_input(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  recompute_layers(kept);
  at::Tensor gradient = dy;
  for (size_t i = layers_.size(); i-- > 1;) gradient = layers_[i]->backward_input(gradient, *kept.layers[i]);
  layers_.front()->begin_backward_input(gradient, *kept.layers.front());
}

at::Tensor Recomputed::end_backward_input(Saved& saved) {
  return layers_.front()->end_backward_input(*static_cast<RecomputedSaved&>(saved).layers.front());
}

void Recomputed::begin_backward_weight(Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  layers_.back()->begin_backward_weight(*kept.layers.back());
}

void Recomputed::backward_weight(Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  for (size_t i = layers_.size(); i-- > 0;) {
    layers_[i]->backward_weight(*kept.layers[i]);
    kept.layers.pop_back();
  }
}

at::Tensor Recomputed::backward(const at::Tensor& dy, Saved& saved) {
  auto& kept = static_cast<RecomputedSaved&>(saved);
  recompute_layers(kept);
  at::Tensor gradient = dy;
  for (size_t i = layers_.size(); i-- > 0;) {
    gradient = layers_[i]->backward(gradient, *kept.layers[i]);
    kept.layers.pop_back();
  }
  return gradient;
}

void Recomputed::append_parameters(std::vector<tensor::Parameter*>& parameters) {
  for (const std::unique_ptr<Layer>& layer : layers_) layer->append_parameters(parameters);
}

LayerSpec recomputed_spec(std::vector<LayerSpec> parts, int64_t hidden) {
  require<InternalError>(!parts.empty(), "there is nothing to recompute");
  using Shape = cost::MicrobatchShape;
  LayerSpec spec = {.name = common_name(parts),
                    .kind = kind_of(parts),
                    .may_begin_stage = parts.front().may_begin_stage,
                    .block = parts.front().block};
  const bool states_memory =
      std::ranges::all_of(parts, [](const LayerSpec& part) { return static_cast<bool>(part.saved_bytes); });
  const bool states_messages =
      std::ranges::all_of(parts, [](const LayerSpec& part) { return static_cast<bool>(part.messages); });
  if (states_memory) {
    spec.saved_bytes = [parts, hidden](const Shape& shape) { return saved_bytes_of(parts, hidden, shape); };
  }
  if (states_messages) {
    spec.messages = [parts](const Shape& shape) { return sum_of_messages(parts, shape); };
  }
  spec.work = [parts](const Shape& shape) { return sum_of_work(parts, shape); };
  spec.make = [parts = std::move(parts)](const Placement& place) {
    std::vector<std::unique_ptr<Layer>> layers;
    for (const LayerSpec& part : parts) layers.push_back(make_layer(part, place));
    return std::make_unique<Recomputed>(std::move(layers));
  };
  return spec;
}

}  // namespace braid::layers
