#include "braid/train/partial_sums.h"

#include <utility>

#include "braid/base/error.h"

namespace braid::train {

PartialSums::PartialSums(RankModel& model, comm::Communicator* mp, comm::Communicator* copies)
    : model_(model), mp_(mp), copies_(copies) {}

void PartialSums::begin_step() { is_complete_.assign(model_.stages.size(), false); }

void PartialSums::complete(size_t chunk) {
  if (is_complete_[chunk]) return;
  is_complete_[chunk] = true;
  std::vector<comm::Work> sums;
  StageModel& stage = model_.stages[chunk];
  for (std::vector<tensor::Segment>* segments : {&stage.segments, &stage.tied_segments}) {
    for (tensor::Segment& segment : *segments) {
      const int32_t ranks = segment.layout.partial_over;
      if (ranks == 1) continue;
      comm::Communicator* group = mp_ != nullptr && mp_->size() == ranks ? mp_ : copies_;
      require<InternalError>(group != nullptr && group->size() == ranks, "no group sums over ", ranks,
                             " mp ranks");
      sums.push_back(group->all_reduce_sum(segment.own_gradients));
    }
  }
  for (comm::Work& sum : sums) sum.wait();
}

}  // namespace braid::train
