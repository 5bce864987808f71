// AdamW over the parameters of one rank: float32 master weights and moments, updated in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "braid/config/training_options.h"
#include "braid/optim/state_store.h"
#include "braid/tensor/segment.h"

namespace braid::optim {

class AdamW {
 public:
  /// States for what this rank updates of `segments`, which must outlive this, in `store`. The master weights
  /// are initialised from the values; a float32 (or float64) segment is its own master. Extra memory: 8 bytes
  /// for each of those elements, 12 for 16-bit values.
  AdamW(std::span<const tensor::Segment> segments, std::unique_ptr<StateStore> store,
        const config::AdamWOptions& options);

  /// Begins an update, of which update does one segment.
  void begin_step() { ++steps_; }

  /// Updates this rank's part of a segment, with learning rate `lr`, from its own_gradients times
  /// `gradient_scale`, over runs of neighbours with the same decay. Allocates nothing. Local.
  void update(size_t segment, double lr, double gradient_scale);

  /// All of an update: begins it, ends the gradients of each segment, which throws InternalError if one of
  /// them was never written, and updates it.
  void step(double lr, double gradient_scale);

  /// Updates begun so far.
  int64_t steps() const { return steps_; }

 private:
  std::span<const tensor::Segment> segments_;
  std::unique_ptr<StateStore> store_;
  config::AdamWOptions options_;
  int64_t steps_ = 0;
};

}  // namespace braid::optim
