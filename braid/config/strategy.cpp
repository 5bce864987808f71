#include "braid/config/strategy.h"

#include "braid/config/error_list.h"

namespace braid::config {

void validate(const Strategy& strategy) {
  ErrorList errors;
  errors.attempt([&] { mesh::validate(strategy.mesh); });
  errors.check(0 <= strategy.sharding_stage && strategy.sharding_stage <= 3,
               "Strategy::sharding_stage must be >= 0 and <= 3, got ", strategy.sharding_stage);
  errors.check(
      !strategy.sequence_parallel || strategy.mesh.mp > 1,
      "Strategy::sequence_parallel divides the sequence over the mp axis and needs mesh.mp > 1, got ",
      strategy.mesh.mp);
  errors.check(strategy.offload_dir.empty() || strategy.offloads_optimizer, "Strategy::offload_dir is '",
               strategy.offload_dir, "', but offloads_optimizer is false");
  errors.check(strategy.segment_bytes >= 1, "Strategy::segment_bytes must be >= 1, got ",
               strategy.segment_bytes);
  errors.check(strategy.chunks_per_rank >= 1, "Strategy::chunks_per_rank must be >= 1, got ",
               strategy.chunks_per_rank);
  errors.check(strategy.no_recompute_layers.empty() || strategy.recompute != Recomputation::kNone,
               "Strategy::no_recompute_layers names layers that are not recomputed, but recompute is kNone: "
               "no layer is");
  errors.check(strategy.recompute != Recomputation::kAuto || strategy.memory_limit_bytes.has_value(),
               "Strategy::recompute is kAuto, which chooses by memory_limit_bytes: set it");
  errors.check(
      !strategy.early_weight_gradients || strategy.mesh.sharding == 1 ||
          strategy.reduce_timing() == ReduceTiming::kStep,
      "Strategy::early_weight_gradients adds up gradients of several microbatches at a time, but they "
      "are reduced after each: set sharding_reduce to kStep, or sharding_stage to 0 or 1");
  for (const int64_t layer : strategy.no_recompute_layers) {
    errors.check(layer >= 0, "Strategy::no_recompute_layers counts layers from 0, got ", layer);
  }
  errors.throw_if_any();
}

}  // namespace braid::config
