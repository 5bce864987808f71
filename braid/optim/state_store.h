// Where an optimizer's states live between updates.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

namespace braid::optim {

/// The states of one segment, flat, in the main dtype; element i belongs to element i of the segment.
struct SegmentStates {
  at::Tensor master;  ///< the weights at full precision; the segment's values if they already are
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

/// Used from one thread at a time.
class StateStore {
 public:
  virtual ~StateStore() = default;

  /// Takes ownership of the states of segment `segment`; segments are added in order.
  virtual void add(SegmentStates states) = 0;

  /// The states of a segment, in memory that the update can read and write. Valid until give_back.
  virtual SegmentStates& take(size_t segment) = 0;

  /// Ends a use that may have modified the states.
  virtual void give_back(size_t segment) = 0;
};

/// Keeps all states in the memory of the device that computes.
std::unique_ptr<StateStore> make_memory_store();

}  // namespace braid::optim
