#include "braid/optim/adamw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/kernels/adamw.h"

namespace braid::optim {

int64_t state_bytes(const tensor::Segment& segment) {
  const StatesSize size = {
      .numel = segment.own.size(),
      .element_bytes = static_cast<int64_t>(segment.own_gradients.element_size()),
      .has_master = segment.own_values.scalar_type() != segment.own_gradients.scalar_type()};
  return size.bytes();
}

AdamW::AdamW(std::span<const tensor::Segment> segments, std::unique_ptr<StateStore> store,
             const config::AdamWOptions& options)
    : segments_(segments), store_(std::move(store)), options_(options) {
  for (const tensor::Segment& segment : segments_) {
    const at::ScalarType wide = segment.own_gradients.scalar_type();
    const bool own_master = segment.own_values.scalar_type() == wide;
    const at::TensorOptions states = segment.own_gradients.options();
    store_->add({.master = own_master ? segment.own_values : segment.own_values.to(wide),
                 .exp_avg = at::zeros({segment.own.size()}, states),
                 .exp_avg_sq = at::zeros({segment.own.size()}, states)});
  }
}

void AdamW::expect_step() {
  if (!segments_.empty()) store_->expect(0);
}

void AdamW::step(double lr, double gradient_scale) {
  begin_step();
  for (size_t i = 0; i < segments_.size(); ++i) {
    segments_[i].end_gradients();
    update(i, lr, gradient_scale);
  }
}

void AdamW::update(size_t index, double lr, double gradient_scale) {
  const tensor::Segment& segment = segments_[index];
  const tensor::SegmentLayout& layout = segment.layout;
  const SegmentStates& states = store_->take(index);
  for (size_t first = 0; first < layout.members.size();) {
    const bool decays = layout.members[first]->decays;
    size_t end = first + 1;
    while (end < layout.members.size() && layout.members[end]->decays == decays) ++end;
    const int64_t run_end = end < layout.members.size() ? layout.offsets[end] : layout.numel;
    const int64_t begin = std::max(layout.offsets[first], segment.own.begin);
    const int64_t count = std::min(run_end, segment.own.end) - begin;
    first = end;
    if (count <= 0) continue;
    const auto run = [&](const at::Tensor& own) { return own.narrow(0, begin - segment.own.begin, count); };
    kernels::adamw_(run(states.master), run(states.exp_avg), run(states.exp_avg_sq),
                    run(segment.own_gradients), run(segment.own_values),
                    {.lr = lr,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = decays ? options_.weight_decay : 0.0,
                     .step = steps_,
                     .grad_scale = gradient_scale});
  }
  store_->give_back(index);
}

}  // namespace braid::optim
