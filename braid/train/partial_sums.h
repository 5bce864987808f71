// Gradients of which each rank of the mp group has a part of the sum.
#pragma once

#include <vector>

#include "braid/comm/communicator.h"
#include "braid/train/rank_model.h"

namespace braid::train {

/// Completes the gradients that are partial sums over neighbouring mp ranks (Parameter::partial_over): norms
/// under sequence parallelism, key-value heads that several ranks share. Once a step, on what the rank
/// updates, after the sum over data ranks.
class PartialSums {
 public:
  /// `mp` is the group of all mp ranks, `copies` that of those with the same key-value heads; null where
  /// there is one rank or no such heads. All must outlive this.
  PartialSums(RankModel& model, comm::Communicator* mp, comm::Communicator* copies);

  /// Begins a step: no gradient is complete.
  void begin_step();

  /// Completes those of a chunk, if that has not been done in this step. Collective over the mp group.
  void complete(size_t chunk);

 private:
  RankModel& model_;
  comm::Communicator* mp_;
  comm::Communicator* copies_;
  std::vector<bool> is_complete_;  // by chunk
};

}  // namespace braid::train
