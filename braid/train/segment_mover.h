// Moves the segments of one rank among its data ranks: gathers values, adds up gradients.
#pragma once

#include <vector>

#include "braid/comm/communicator.h"
#include "braid/pipeline/executor.h"
#include "braid/schedule/schedule.h"
#include "braid/train/rank_model.h"

namespace braid::train {

/// What one rank does for the actions of a schedule's data axes. All methods are collective over the sharding
/// or the dp group, whose ranks run the same schedule.
///
/// Sums are over the sharding axis first, in its order, then over microbatches where each is reduced by
/// itself, then over the dp axis. The gradient of a weight that F alone makes is reduced once a step in any
/// case: with several forwards in flight, the schedule would otherwise decide how it is summed.
class SegmentMover final : public pipeline::SegmentActions {
 public:
  /// `sharding` and `dp` are null where the axis has one rank. All must outlive this.
  SegmentMover(RankModel& model, const schedule::Schedule& step, comm::Communicator* sharding,
               comm::Communicator* dp);

  void perform(const schedule::Action& action) override;
  void prepare_gradients(int32_t chunk, int32_t segment) override;

  /// Makes all values of this rank's segments available outside of steps, and undoes it. They do nothing
  /// where ranks hold all values anyway.
  void gather_all_values();
  void release_all_values();

 private:
  struct Slot {
    tensor::Segment* segment = nullptr;
    bool is_tied_user = false;     ///< another segment holds the values
    bool made_in_forward = false;  ///< its gradient
    at::Tensor gathered;           ///< values on their way
    comm::Work values;
    at::Tensor partial;  ///< this rank's part of a microbatch's sum, on its way
    comm::Work gradients;
    int32_t reductions = 0;  ///< asked for in this step
  };

  bool reduces_each_microbatch(const Slot& slot) const;
  template <typename Visit>
  void for_each(int32_t chunk, int32_t segment, const Visit& visit);

  void gather(Slot& slot);
  void wait_gather(Slot& slot);
  void release(Slot& slot);
  void reduce(Slot& slot);
  void wait_reduce(Slot& slot);
  void reduce_dp(Slot& slot);
  void wait_reduce_dp(Slot& slot);

  schedule::DataAxes data_;
  int32_t microbatches_;
  comm::Communicator* sharding_;
  comm::Communicator* dp_;
  std::vector<std::vector<Slot>> slots_;  // by chunk
};

/// Whether a parameter's gradient is complete after the last F, and so is reduced once a step.
bool is_made_in_forward(const tensor::SegmentLayout& layout);

}  // namespace braid::train
