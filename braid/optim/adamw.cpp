#include "braid/optim/adamw.h"

#include <ATen/ATen.h>

#include <utility>

#include "braid/base/error.h"
#include "braid/kernels/adamw.h"

namespace braid::optim {

AdamW::AdamW(std::span<const tensor::Segment> segments, std::unique_ptr<StateStore> store,
             const config::AdamWOptions& options)
    : segments_(segments), store_(std::move(store)), options_(options) {
  for (const tensor::Segment& segment : segments_) {
    const at::ScalarType wide = segment.gradients.scalar_type();
    const bool own_master = segment.values.scalar_type() == wide;
    store_->add({.master = own_master ? segment.values : segment.values.to(wide),
                 .exp_avg = at::zeros_like(segment.gradients),
                 .exp_avg_sq = at::zeros_like(segment.gradients)});
  }
}

void AdamW::step(double lr, double gradient_scale) {
  ++steps_;
  for (size_t i = 0; i < segments_.size(); ++i) update(i, lr, gradient_scale);
}

void AdamW::update(size_t index, double lr, double gradient_scale) {
  const tensor::Segment& segment = segments_[index];
  const tensor::SegmentLayout& layout = segment.layout;
  for (tensor::Parameter* parameter : layout.members) {
    require<InternalError>(parameter->gradient_started, "parameter ", parameter->name,
                           " has no gradient in this step");
    parameter->gradient_started = false;
  }
  const SegmentStates& states = store_->take(index);
  for (size_t first = 0; first < layout.members.size();) {
    const bool decays = layout.members[first]->decays;
    size_t end = first + 1;
    while (end < layout.members.size() && layout.members[end]->decays == decays) ++end;
    const int64_t begin = layout.offsets[first];
    const int64_t count = (end < layout.members.size() ? layout.offsets[end] : layout.numel) - begin;
    const auto run = [&](const at::Tensor& flat) { return flat.narrow(0, begin, count); };
    kernels::adamw_(run(states.master), run(states.exp_avg), run(states.exp_avg_sq), run(segment.gradients),
                    run(segment.values),
                    {.lr = lr,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = decays ? options_.weight_decay : 0.0,
                     .step = steps_,
                     .grad_scale = gradient_scale});
    first = end;
  }
  store_->give_back(index);
}

}  // namespace braid::optim
