// Parameters in flat buffers: values in one, main gradients in another.
//
// Code that moves or updates many parameters (an optimizer, sharding, offloading) works on runs of a segment
// instead of on one tensor at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/tensor/parameter.h"

namespace braid::tensor {

/// Every parameter begins at a multiple of this many elements: 64 bytes of the smallest dtype, so that no two
/// parameters of any dtype share a cache line. The elements between two parameters are padding, always 0.
inline constexpr int64_t kSegmentUnit = 32;

/// Where a chunk's parameters are cut into segments. A layer is never cut.
struct SegmentCut {
  int64_t bytes =
      int64_t{32} << 20;  ///< a segment ends with the layer that brings its values to this many bytes
  std::vector<std::string> anchors = {};  ///< if not empty, segments begin with these layers instead
};

/// A layer's name and those of its parameters that need memory.
struct LayerParameters {
  std::string layer;
  std::vector<Parameter*> parameters;
};

/// Members of a segment, and where each begins, in elements of its flat buffers.
struct SegmentLayout {
  std::vector<Parameter*> members;
  std::vector<int64_t> offsets;  ///< of each member, ascending
  int64_t numel = 0;             ///< of either buffer, padding included
};

/// The division of `layers`' parameters into segments, with values of `element_bytes` per element. Pure: the
/// parameters need no memory yet.
std::vector<SegmentLayout> lay_out_segments(std::span<const LayerParameters> layers, const SegmentCut& cut,
                                            int64_t element_bytes);

struct Segment {
  SegmentLayout layout;
  at::Tensor values;     ///< [numel] in the compute dtype
  at::Tensor gradients;  ///< [numel] in the main dtype
};

/// Gives every parameter of `layouts` its value and main gradient, as views of its segment's two buffers, in
/// `options`' dtype and device. Contents are undefined; a parameter with a `leaf` takes over the leaf's
/// values, and the leaf its memory.
std::vector<Segment> allocate_segments(std::span<const SegmentLayout> layouts, at::TensorOptions options);

/// Gives `parameter`, which is tied to `owner`, the owner's value and a main gradient of its own.
void share_value(Parameter& parameter, const Parameter& owner);

}  // namespace braid::tensor
