#include "braid/tensor/segment.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "braid/base/error.h"

namespace braid::tensor {
namespace {

/// Elements that no parameter covers are 0 from the start, so that updates and sums may run over them.
void clear_padding(const SegmentLayout& layout, const at::Tensor& flat) {
  for (size_t i = 0; i < layout.members.size(); ++i) {
    const int64_t end = layout.offsets[i] + layout.members[i]->numel();
    const int64_t next = i + 1 < layout.offsets.size() ? layout.offsets[i + 1] : layout.numel;
    if (end < next) flat.narrow(0, end, next - end).zero_();
  }
}

Range own_range(const SegmentLayout& layout, const SegmentHolding& holding) {
  const int64_t size = layout.numel / holding.parts;
  return {holding.part * size, (holding.part + 1) * size};
}

/// A member's view of `flat`, or an undefined tensor of an undefined one.
at::Tensor view_of(const Segment& segment, size_t member, const at::Tensor& flat) {
  if (!flat.defined()) return {};
  const Parameter& parameter = *segment.layout.members[member];
  return flat.narrow(0, segment.layout.offsets[member], parameter.numel()).view(parameter.sizes());
}

void take_leaves(const SegmentLayout& layout) {
  for (Parameter* parameter : layout.members) {
    if (!parameter->leaf.defined()) continue;
    parameter->value.copy_(parameter->leaf);
    parameter->leaf.set_data(parameter->value);
  }
}

void allocate_gradients(Segment& segment, at::TensorOptions options, const SegmentHolding& holding) {
  const bool made_in_forward = std::ranges::any_of(
      segment.layout.members, [](const Parameter* parameter) { return parameter->gradient_in_forward; });
  if (holding.only_own_gradients && !made_in_forward) {
    segment.own_gradients = at::empty({segment.own.size()}, options);
    return;
  }
  const at::Tensor flat = at::empty({segment.layout.numel}, options);
  clear_padding(segment.layout, flat);
  segment.bind_gradients(flat);
  segment.own_gradients = flat.narrow(0, segment.own.begin, segment.own.size());
}

}  // namespace

std::vector<SegmentLayout> lay_out_segments(std::span<const LayerParameters> layers, const SegmentCut& cut,
                                            int64_t element_bytes, int64_t parts) {
  std::vector<SegmentLayout> layouts;
  std::vector<int64_t> begins;  // of each group
  int64_t group_bytes = 0;
  const auto add = [&](SegmentLayout& layout, Parameter* parameter) {
    layout.members.push_back(parameter);
    layout.offsets.push_back(layout.numel);
    layout.numel += rounded_up(parameter->numel(), kSegmentUnit);
    group_bytes += rounded_up(parameter->numel(), kSegmentUnit) * element_bytes;
  };
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerParameters& layer = layers[i];
    if (layer.parameters.empty()) continue;
    const bool begins_here =
        cut.anchors.empty() ? group_bytes >= cut.bytes : std::ranges::count(cut.anchors, layer.layer) > 0;
    if (begins.empty() || begins_here) {
      begins.push_back(begins.empty() ? 0 : static_cast<int64_t>(i));
      group_bytes = 0;
    }
    const auto group = static_cast<int32_t>(begins.size()) - 1;
    for (Parameter* parameter : layer.parameters) {
      if (std::ranges::count(layer.apart, parameter) > 0) {
        add(layouts.emplace_back(
                SegmentLayout{.group = group, .is_apart = true, .partial_over = parameter->partial_over}),
            parameter);
        continue;
      }
      // The group's segment of parameters that do not stand apart.
      auto mine = std::ranges::find_if(layouts, [&](const SegmentLayout& layout) {
        return layout.group == group && !layout.is_apart && layout.partial_over == parameter->partial_over;
      });
      if (mine == layouts.end()) {
        mine = layouts.insert(layouts.end(),
                              SegmentLayout{.group = group, .partial_over = parameter->partial_over});
      }
      add(*mine, parameter);
    }
  }
  for (SegmentLayout& layout : layouts) {
    const auto group = static_cast<size_t>(layout.group);
    const bool is_last = group + 1 == begins.size();
    layout.layers = {begins[group], is_last ? std::ssize(layers) : begins[group + 1]};
    layout.numel = rounded_up(layout.numel, kSegmentUnit * parts);
  }
  return layouts;
}

std::vector<Range> layer_groups(std::span<const SegmentLayout> layouts, int64_t count) {
  std::vector<Range> groups;
  for (const SegmentLayout& layout : layouts) {
    if (layout.group == std::ssize(groups)) groups.push_back(layout.layers);
  }
  if (groups.empty()) groups.push_back({0, count});
  return groups;
}

void Segment::bind_values(const at::Tensor& flat) {
  values = flat;
  for (size_t i = 0; i < layout.members.size(); ++i) layout.members[i]->value = view_of(*this, i, flat);
}

void Segment::bind_gradients(const at::Tensor& flat) {
  gradients = flat;
  for (size_t i = 0; i < layout.members.size(); ++i) layout.members[i]->main_grad = view_of(*this, i, flat);
}

void Segment::end_gradients() const {
  for (Parameter* parameter : layout.members) {
    require<InternalError>(parameter->gradient_started, "parameter ", parameter->name,
                           " has no gradient in this step");
    parameter->gradient_started = false;
  }
}

std::vector<Segment> allocate_segments(std::span<const SegmentLayout> layouts, at::TensorOptions options,
                                       const SegmentHolding& holding, const FillValues& fill) {
  const at::NoGradGuard no_grad;
  std::vector<Segment> segments;
  for (const SegmentLayout& layout : layouts) {
    Segment& segment = segments.emplace_back(Segment{.layout = layout, .own = own_range(layout, holding)});
    segment.bind_values(at::empty({layout.numel}, options));
    clear_padding(layout, segment.values);
    segment.own_values = segment.values.narrow(0, segment.own.begin, segment.own.size());
    take_leaves(layout);
    if (fill) fill(layout.members);
    if (holding.only_own_values) {
      segment.own_values = segment.own_values.clone();
      segment.bind_values({});
    }
    allocate_gradients(segment, options.dtype(main_dtype(c10::typeMetaToScalarType(options.dtype()))),
                       holding);
  }
  return segments;
}

at::Tensor empty_gradients(const Segment& segment) {
  at::Tensor flat = at::empty({segment.layout.numel}, segment.own_gradients.options());
  clear_padding(segment.layout, flat);
  return flat;
}

Segment allocate_tied_segment(const SegmentLayout& layout, const Segment& owner,
                              const SegmentHolding& holding) {
  const Parameter& mine = *layout.members.front();
  const Parameter& theirs = *owner.layout.members.front();
  require<InternalError>(
      layout.members.size() == 1 && owner.layout.members.size() == 1 && is_tied(mine, theirs), mine.name,
      " and ", theirs.name, " are not tied");
  Segment segment = {.layout = layout, .own = owner.own};
  segment.bind_values(owner.values);
  segment.own_values = owner.own_values;
  if (mine.leaf.defined()) mine.leaf.set_data(mine.value);
  allocate_gradients(segment, owner.own_gradients.options(), holding);
  return segment;
}

}  // namespace braid::tensor
