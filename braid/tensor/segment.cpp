#include "braid/tensor/segment.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "braid/base/error.h"

namespace braid::tensor {
namespace {

int64_t padded(int64_t numel) { return (numel + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit; }

void bind(Parameter& parameter, int64_t offset, const Segment& segment) {
  const std::vector<int64_t> sizes = parameter.sizes();
  const auto view = [&](const at::Tensor& flat) {
    return flat.narrow(0, offset, parameter.numel()).view(sizes);
  };
  parameter.value = view(segment.values);
  parameter.main_grad = view(segment.gradients);
  if (!parameter.leaf.defined()) return;
  parameter.value.copy_(parameter.leaf);
  parameter.leaf.set_data(parameter.value);
}

/// Elements that no parameter covers are 0 from the start, so that updates may run over them.
void clear_padding(const SegmentLayout& layout, const at::Tensor& flat) {
  for (size_t i = 0; i < layout.members.size(); ++i) {
    const int64_t end = layout.offsets[i] + layout.members[i]->numel();
    const int64_t next = i + 1 < layout.offsets.size() ? layout.offsets[i + 1] : layout.numel;
    if (end < next) flat.narrow(0, end, next - end).zero_();
  }
}

}  // namespace

std::vector<SegmentLayout> lay_out_segments(std::span<const LayerParameters> layers, const SegmentCut& cut,
                                            int64_t element_bytes) {
  std::vector<SegmentLayout> layouts;
  for (const LayerParameters& layer : layers) {
    if (layer.parameters.empty()) continue;
    const bool begins = cut.anchors.empty()
                            ? layouts.empty() || layouts.back().numel * element_bytes >= cut.bytes
                            : layouts.empty() || std::ranges::count(cut.anchors, layer.layer) > 0;
    if (begins) layouts.emplace_back();
    SegmentLayout& layout = layouts.back();
    for (Parameter* parameter : layer.parameters) {
      layout.members.push_back(parameter);
      layout.offsets.push_back(layout.numel);
      layout.numel += padded(parameter->numel());
    }
  }
  return layouts;
}

std::vector<Segment> allocate_segments(std::span<const SegmentLayout> layouts, at::TensorOptions options) {
  const at::NoGradGuard no_grad;
  std::vector<Segment> segments;
  for (const SegmentLayout& layout : layouts) {
    Segment& segment = segments.emplace_back(Segment{.layout = layout, .values = {}, .gradients = {}});
    segment.values = at::empty({layout.numel}, options);
    segment.gradients = at::empty({layout.numel}, options.dtype(main_dtype(segment.values.scalar_type())));
    clear_padding(layout, segment.values);
    clear_padding(layout, segment.gradients);
    for (size_t i = 0; i < layout.members.size(); ++i) bind(*layout.members[i], layout.offsets[i], segment);
  }
  return segments;
}

void share_value(Parameter& parameter, const Parameter& owner) {
  require<InternalError>(is_tied(parameter, owner), parameter.name, " and ", owner.name, " are not tied");
  parameter.value = owner.value;
  parameter.main_grad = at::empty_like(owner.main_grad);
  if (parameter.leaf.defined()) parameter.leaf.set_data(parameter.value);
}

}  // namespace braid::tensor
