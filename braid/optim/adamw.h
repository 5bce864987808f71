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
  /// States for the parameters of `segments`, which must outlive this, in `store`. The master weights are
  /// initialised from the values; a float32 (or float64) segment is its own master. Extra memory: 8 bytes per
  /// element of the segments' buffers, 12 for bfloat16.
  AdamW(std::span<const tensor::Segment> segments, std::unique_ptr<StateStore> store,
        const config::AdamWOptions& options);

  /// One update with learning rate `lr`, from the main gradients times `gradient_scale`, over runs of
  /// neighbours with the same decay. Ends the step of every main gradient (Parameter::gradient_started
  /// becomes false). A parameter whose gradient was never written in this step is an InternalError. Allocates
  /// nothing. Local: no communication.
  void step(double lr, double gradient_scale);

  /// Updates done so far.
  int64_t steps() const { return steps_; }

 private:
  void update(size_t segment, double lr, double gradient_scale);

  std::span<const tensor::Segment> segments_;
  std::unique_ptr<StateStore> store_;
  config::AdamWOptions options_;
  int64_t steps_ = 0;
};

}  // namespace braid::optim
