#include "braid/train/tied_weight.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace braid::train {
TiedWeight::TiedWeight(const RankModel& model, const RunPlan& plan, int32_t rank, comm::PipelineLink* link)
    : model_(&model), link_(link) {
  if (!plan.tied || plan.tied->is_local()) return;
  if (rank != plan.tied->first_rank && rank != plan.tied->last_rank) return;
  is_first_ = rank == plan.tied->first_rank;
  peer_ = is_first_ ? plan.tied->last_rank : plan.tied->first_rank;
  const std::vector<tensor::Parameter*> parameters = model.parameters();
  mine_ = *std::ranges::find_if(parameters,
                                [&](const tensor::Parameter* p) { return p->slices == plan.tied->slices; });
  received_ = at::empty_like(mine_->main_grad);
}

bool TiedWeight::counts(const tensor::Parameter& parameter) const {
  return !model_->is_user(parameter) && (is_first_ || &parameter != mine_);
}

void TiedWeight::start() {
  if (mine_ == nullptr) return;
  receive_ = link_->receive(received_, peer_, comm::MessageKind::kTiedGradient, 0);
  send_ = link_->send(mine_->main_grad, peer_, comm::MessageKind::kTiedGradient, 0);
}

void TiedWeight::finish() {
  for (const LocalTie& tie : model_->local_ties) {
    tie.owner->main_grad.add_(tie.user->main_grad);
    tie.user->gradient_started = false;
  }
  if (mine_ == nullptr) return;
  receive_.wait([] { return "the other half of the tied weight's gradient"; });
  send_.wait([] { return "the send of the tied weight's gradient"; });
  mine_->main_grad.add_(received_);  // a + b and b + a are the same bits
}

}  // namespace braid::train
