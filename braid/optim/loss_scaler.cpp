#include "braid/optim/loss_scaler.h"

#include <algorithm>

namespace braid::optim {

void LossScaler::update(bool overflowed) {
  in_a_row_ = overflowed == overflowed_ ? in_a_row_ + 1 : 1;
  overflowed_ = overflowed;
  if (in_a_row_ < (overflowed ? options_.backoff_after : options_.growth_interval)) return;
  in_a_row_ = 0;
  scale_ = overflowed ? std::max(scale_ * options_.backoff, options_.floor) : scale_ * options_.growth;
}

}  // namespace braid::optim
