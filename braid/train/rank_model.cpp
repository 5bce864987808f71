#include "braid/train/rank_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

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

tensor::Segment& RankModel::segment_of(const tensor::Parameter& parameter) {
  for (StageModel& stage : stages) {
    for (std::vector<tensor::Segment>* segments : {&stage.segments, &stage.tied_segments}) {
      for (tensor::Segment& segment : *segments) {
        if (segment.layout.members.front() == &parameter) return segment;
      }
    }
  }
  throw InternalError(cat("parameter ", parameter.name, " has no segment of its own"));
}

std::vector<tensor::Range> RankLayout::Stage::groups() const {
  std::vector<tensor::SegmentLayout> all = segments;
  all.insert(all.end(), tied_segments.begin(), tied_segments.end());
  std::ranges::stable_sort(all, {}, &tensor::SegmentLayout::group);
  return tensor::layer_groups(all, std::ssize(layers));
}

RankLayout lay_out_rank(std::span<const std::span<const layers::LayerSpec>> stages,
                        const LayoutOptions& options, int64_t element_bytes, const layers::Placement& place) {
  RankLayout result;
  std::vector<tensor::Parameter*> owners;
  for (const std::span<const layers::LayerSpec> specs : stages) {
    RankLayout::Stage& stage = result.stages.emplace_back();
    for (const layers::LayerSpec& spec : specs) stage.layers.push_back(layers::make_layer(spec, place));
    std::vector<tensor::LayerParameters> by_layer = layers::parameters_by_layer(stage.layers, specs);
    for (tensor::LayerParameters& layer : by_layer) {
      for (tensor::Parameter* parameter : layer.parameters) {
        const bool is_apart = parameter->slices.front().name == options.tied ||
                              (options.forward_gradients_apart && parameter->gradient_in_forward);
        if (is_apart) layer.apart.push_back(parameter);
      }
    }
    for (tensor::SegmentLayout& segment :
         tensor::lay_out_segments(by_layer, options.cut, element_bytes, options.parts)) {
      tensor::Parameter* const first = segment.members.front();
      tensor::Parameter* const owner = owner_of(*first, owners);
      if (owner != nullptr) {
        result.local_ties.push_back({.owner = owner, .user = first});
        stage.tied_segments.push_back(std::move(segment));
      } else {
        owners.insert(owners.end(), segment.members.begin(), segment.members.end());
        stage.segments.push_back(std::move(segment));
      }
    }
  }
  return result;
}

RankModel make_rank_model(std::span<const std::span<const layers::LayerSpec>> stages,
                          const LayoutOptions& layout, const layers::Placement& place, at::ScalarType dtype,
                          const tensor::SegmentHolding& holding, const tensor::FillValues& fill) {
  const at::TensorOptions options = at::TensorOptions(place.device).dtype(dtype);
  RankLayout laid_out = lay_out_rank(stages, layout, static_cast<int64_t>(c10::elementSize(dtype)), place);
  RankModel result = {.stages = {}, .local_ties = std::move(laid_out.local_ties)};
  for (RankLayout::Stage& stage : laid_out.stages) {
    StageModel& made = result.stages.emplace_back();
    made.groups = stage.groups();
    made.segments = tensor::allocate_segments(stage.segments, options, holding, fill);
    made.layers = std::move(stage.layers);
  }
  for (size_t i = 0; i < laid_out.stages.size(); ++i) {
    for (const tensor::SegmentLayout& user : laid_out.stages[i].tied_segments) {
      const auto tie = std::ranges::find(result.local_ties, user.members.front(), &LocalTie::user);
      result.stages[i].tied_segments.push_back(
          tensor::allocate_tied_segment(user, result.segment_of(*tie->owner), holding));
    }
  }
  return result;
}

}  // namespace braid::train
