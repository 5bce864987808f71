// The scale of the loss in float16 training.
#pragma once

#include <cstdint>

#include "braid/config/training_options.h"

namespace braid::optim {

/// Grows while steps succeed and shrinks when gradients overflow: as PaddlePaddle's update_loss_scaling,
/// which does not go below the floor.
class LossScaler {
 public:
  explicit LossScaler(const config::LossScaling& options) : options_(options), scale_(options.initial) {}

  /// By which the loss of the next step is multiplied.
  double scale() const { return scale_; }

  /// Whether a further overflow cannot be answered by a smaller scale.
  bool is_at_floor() const { return scale_ <= options_.floor; }

  /// Records whether a step's gradients overflowed.
  void update(bool overflowed);

 private:
  config::LossScaling options_;
  double scale_;
  int64_t in_a_row_ = 0;  // steps that ended like the last one
  bool overflowed_ = false;
};

}  // namespace braid::optim
