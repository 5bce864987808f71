#include "braid/cost/layer_cost.h"

#include "braid/base/error.h"

namespace braid::cost {
namespace {

// Bytes of an activation's element as the estimate counts it.
constexpr double kElementBytes = 4;
// AdamW reads gradient, master weight and two moments, and writes the last three: seven floats.
constexpr double kOptimizerBytesPerParameter = 28;

}  // namespace

double training_flops(const LayerWork& work) { return 3 * work.forward_flops; }

double training_cost(const LayerWork& work, int64_t parameters, const Machine& machine) {
  require<ConfigError>(machine.flops_per_byte >= 0 && machine.tokens_per_step > 0,
                       "flops_per_byte must not be negative and tokens_per_step must be positive, got ",
                       machine.flops_per_byte, " and ", machine.tokens_per_step);
  const double bytes = work.activation_elements * kElementBytes + kOptimizerBytesPerParameter *
                                                                      static_cast<double>(parameters) /
                                                                      machine.tokens_per_step;
  return training_flops(work) + work.recomputed_flops + bytes * machine.flops_per_byte;
}

}  // namespace braid::cost
