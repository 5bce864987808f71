#include "braid/train/tied_weight.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace braid::train {
TiedWeight::TiedWeight(RankModel& model, const RunPlan& plan, int32_t rank, comm::PipelineLink* link)
    : model_(&model), link_(link) {
  if (!plan.tied || plan.tied->is_local()) return;
  if (rank != plan.tied->first_rank && rank != plan.tied->last_rank) return;
  is_first_ = rank == plan.tied->first_rank;
  peer_ = is_first_ ? plan.tied->last_rank : plan.tied->first_rank;
  const std::vector<tensor::Parameter*> parameters = model.parameters();
  const auto mine = std::ranges::find_if(parameters, [&](const tensor::Parameter* parameter) {
    return parameter->slices.front().name == plan.tied->slices.front().name;
  });
  mine_ = &model.segment_of(**mine);
  received_ = at::empty_like(mine_->own_gradients);
}

bool TiedWeight::counts(const tensor::Parameter& parameter) const {
  return !model_->is_user(parameter) &&
         (is_first_ || mine_ == nullptr || &parameter != mine_->layout.members.front());
}

void TiedWeight::start() {
  if (mine_ == nullptr) return;
  receive_ = link_->receive(received_, peer_, comm::MessageKind::kTiedGradient, 0);
  send_ = link_->send(mine_->own_gradients, peer_, comm::MessageKind::kTiedGradient, 0);
}

void TiedWeight::finish() {
  for (const LocalTie& tie : model_->local_ties) {
    model_->segment_of(*tie.owner).own_gradients.add_(model_->segment_of(*tie.user).own_gradients);
  }
  if (mine_ == nullptr) return;
  receive_.wait([] { return "the other half of the tied weight's gradient"; });
  send_.wait([] { return "the send of the tied weight's gradient"; });
  mine_->own_gradients.add_(received_);  // a + b and b + a are the same bits
}

}  // namespace braid::train
