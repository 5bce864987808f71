// Parameters in flat buffers: values in one, main gradients in another.
//
// Code that moves or updates many parameters (an optimizer, sharding, offloading) works on runs of a segment
// instead of on one tensor at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "braid/tensor/parameter.h"

namespace braid::tensor {

/// Every parameter, and every part of a segment that a rank may hold, begins at a multiple of this many
/// elements. Numbers that are computed for each such unit, as a norm is, do not depend on how segments are
/// cut or divided. The elements between two parameters are padding, always 0.
inline constexpr int64_t kSegmentUnit = 256;

/// The smallest multiple of `unit` that is at least `numel`.
inline int64_t rounded_up(int64_t numel, int64_t unit) { return (numel + unit - 1) / unit * unit; }

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
  std::vector<Parameter*> apart = {};  ///< those of them that get segments of their own
};

/// Members of a segment, and where each begins, in elements of its flat buffers.
struct SegmentLayout {
  std::vector<Parameter*> members;
  std::vector<int64_t> offsets;  ///< of each member, ascending
  int64_t numel = 0;         ///< of either buffer, padding included: a multiple of kSegmentUnit for each part
  int32_t group = 0;         ///< of layers, in the order of the layers: several segments may share one
  Range layers;              ///< the group, by position among those that were laid out
  bool is_apart = false;     ///< holds one parameter that stands apart
  int32_t partial_over = 1;  ///< of all members, see Parameter
};

/// The division of `layers`' parameters into segments, with values of `element_bytes` per element, each of
/// which can be divided into `parts` equal parts. A parameter that stands apart belongs to the same group of
/// layers as its layer's others; so do those whose gradients are partial sums, which share a segment of their
/// own. Pure: the parameters need no memory yet.
std::vector<SegmentLayout> lay_out_segments(std::span<const LayerParameters> layers, const SegmentCut& cut,
                                            int64_t element_bytes, int64_t parts = 1);

/// The groups of `count` layers that `layouts` name, in order: at least one, and together all layers.
std::vector<Range> layer_groups(std::span<const SegmentLayout> layouts, int64_t count);

/// What one rank holds of its segments all the time.
struct SegmentHolding {
  int64_t parts =
      1;  ///< the number of ranks that share a segment, each of which updates one of the equal parts
  int64_t part = 0;                 ///< this rank's
  bool only_own_values = false;     ///< between uses, instead of all
  bool only_own_gradients = false;  ///< but for those of a microbatch at work, instead of all; never where F
                                    ///< makes one, for several forwards may be in flight
};

struct Segment {
  SegmentLayout layout;
  at::Tensor values;         ///< [numel] in the compute dtype; undefined while only this rank's part is held
  at::Tensor gradients;      ///< [numel] in the main dtype; likewise
  Range own;                 ///< what this rank updates
  at::Tensor own_values;     ///< [own.size()]; a view of the values where all of them are always held
  at::Tensor own_gradients;  ///< [own.size()], likewise

  /// Makes `flat` [numel] the values, of which the members' are views; or drops them if it is undefined.
  void bind_values(const at::Tensor& flat);
  void bind_gradients(const at::Tensor& flat);

  /// Ends the accumulation of the members' gradients: the next contributions overwrite. Throws InternalError,
  /// which names the parameter, if one of them has not been written.
  void end_gradients() const;
};

/// Gives parameters, which have memory, their first values.
using FillValues = std::function<void(std::span<Parameter* const>)>;

/// Memory for the parameters of `layouts`, in `options`' dtype and device: each has its value and main
/// gradient as views of its segment's two buffers. Contents are undefined, padding is 0; a parameter with a
/// `leaf` takes over the leaf's values, and the leaf its memory. Then `fill`, unless it is empty, is called
/// with the members of each segment in turn. With only_own_values a segment is whole until that returns, and
/// is reduced to this rank's part before the next one has memory.
std::vector<Segment> allocate_segments(std::span<const SegmentLayout> layouts, at::TensorOptions options,
                                       const SegmentHolding& holding = {}, const FillValues& fill = {});

/// A whole gradient buffer for `segment`, with its padding cleared.
at::Tensor empty_gradients(const Segment& segment);

/// Gradients of their own for a layout of one parameter, which is tied to that of `owner`, laid out alike:
/// they share the values.
Segment allocate_tied_segment(const SegmentLayout& layout, const Segment& owner,
                              const SegmentHolding& holding);

}  // namespace braid::tensor
