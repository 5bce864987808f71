#include "braid/train/rank_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace braid::train {
namespace {

/// The parameter of `earlier` layers to which `parameter` is tied, or null.
tensor::Parameter* owner_of(const tensor::Parameter& parameter,
                            const std::vector<tensor::Parameter*>& earlier) {
  const auto found = std::ranges::find_if(
      earlier, [&](const tensor::Parameter* other) { return tensor::is_tied(*other, parameter); });
  return found == earlier.end() ? nullptr : *found;
}

}  // namespace

std::vector<tensor::Parameter*> RankModel::parameters() const {
  std::vector<tensor::Parameter*> all;
  for (const StageModel& stage : stages) {
    const std::vector<tensor::Parameter*> of_stage = stage.parameters();
    all.insert(all.end(), of_stage.begin(), of_stage.end());
  }
  return all;
}

bool RankModel::is_user(const tensor::Parameter& parameter) const {
  return std::ranges::any_of(local_ties, [&](const LocalTie& tie) { return tie.user == &parameter; });
}

RankLayout lay_out_rank(std::span<const std::span<const layers::LayerSpec>> stages,
                        const tensor::SegmentCut& cut, int64_t element_bytes, c10::Device device) {
  RankLayout result;
  std::vector<tensor::Parameter*> owners;
  for (const std::span<const layers::LayerSpec> specs : stages) {
    RankLayout::Stage& stage = result.stages.emplace_back();
    for (const layers::LayerSpec& spec : specs)
      stage.layers.push_back(layers::make_layer(spec, {.device = device}));
    std::vector<tensor::LayerParameters> by_layer = layers::parameters_by_layer(stage.layers, specs);
    for (tensor::LayerParameters& layer : by_layer) {
      std::erase_if(layer.parameters, [&](tensor::Parameter* parameter) {
        tensor::Parameter* owner = owner_of(*parameter, owners);
        if (owner != nullptr) result.local_ties.push_back({.owner = owner, .user = parameter});
        return owner != nullptr;
      });
      owners.insert(owners.end(), layer.parameters.begin(), layer.parameters.end());
    }
    stage.segments = tensor::lay_out_segments(by_layer, cut, element_bytes);
  }
  return result;
}

RankModel make_rank_model(std::span<const std::span<const layers::LayerSpec>> stages,
                          const tensor::SegmentCut& cut, at::TensorOptions options) {
  RankLayout layout =
      lay_out_rank(stages, cut, static_cast<int64_t>(options.dtype().itemsize()), options.device());
  RankModel result = {.stages = {}, .local_ties = std::move(layout.local_ties)};
  for (RankLayout::Stage& stage : layout.stages) {
    result.stages.push_back(
        {.layers = std::move(stage.layers), .segments = tensor::allocate_segments(stage.segments, options)});
  }
  for (const LocalTie& tie : result.local_ties) tensor::share_value(*tie.user, *tie.owner);
  return result;
}

}  // namespace braid::train
