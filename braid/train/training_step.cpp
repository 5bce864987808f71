#include "braid/train/training_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/exact_sum.h"
#include "braid/base/text.h"
#include "braid/optim/clipping.h"
#include "braid/optim/learning_rate.h"
#include "braid/schedule/schedule.h"
#include "braid/tensor/memory.h"

namespace braid::train {
namespace {

// What each rank tells the others, in this order; then the words of two exact sums, of the losses and of the
// squares of the gradients.
enum Slot : size_t {
  kStop,
  kTokens,
  kAllocated,
  kReserved,
  kMaxAllocated,
  kMaxReserved,
  kOverflowedLayer,
  kSlots
};

}  // namespace

int64_t count_labels(const std::vector<pipeline::Microbatch>& microbatches) {
  int64_t count = 0;
  for (const auto& microbatch : microbatches) {
    if (microbatch.labels.defined()) count += microbatch.labels.ne(-100).sum().item<int64_t>();
  }
  return count;
}

TrainingStep::TrainingStep(const RunPlan& plan, const RankModel& model, const mesh::Coordinates& coordinates,
                           PartialSums& partial_sums, TiedWeight& tied, std::span<optim::AdamW> optimizers,
                           comm::Communicator& world, c10::Device device)
    : plan_(plan),
      model_(model),
      partial_sums_(partial_sums),
      tied_(tied),
      optimizers_(optimizers),
      world_(world),
      training_(plan.training),
      device_(device),
      coordinates_(coordinates),
      has_data_axes_(plan.step.data.is_on()),
      counts_loss_(coordinates.mp == 0),
      counts_squares_(coordinates.dp == 0 &&
                      (coordinates.sharding == 0 || plan.step.data.sharding_stage > 0)),
      is_scaled_(plan.step.step_end.norm_use == schedule::NormUse::kScalesUpdate),
      data_ranks_(plan.data_ranks()),
      expected_tokens_(static_cast<double>(plan.samples_per_step() * plan.training.sequence_tokens)) {
  if (training_.precision == config::Precision::kFloat16) scaler_.emplace(training_.loss_scaling);
  static_assert(kSlots + 2 * ExactSum::kWords == kStepExchangeNumel);
}

std::optional<StepOutcome> TrainingStep::run(pipeline::Executor& executor, int64_t step,
                                             const std::vector<pipeline::Microbatch>& microbatches,
                                             const pipeline::ActivationSpec& activation,
                                             bool stop_requested) {
  step_ = step;
  stop_requested_ = stop_requested;
  known_.reset();
  gradient_scale_ = 1.0;
  has_begun_.assign(optimizers_.size(), false);
  partial_sums_.begin_step();
  const int64_t labels = count_labels(microbatches);
  // A rank knows its own labels alone. As long as those of the others are unknown, gradients are those of the
  // loss over as many tokens as there are at most; the update corrects them, by a factor of 1 in most runs.
  double tokens = static_cast<double>(labels);
  if (data_ranks_ > 1) {
    tokens = expected_tokens_;
    if (!is_scaled_) {
      const at::Tensor mine = at::full({1}, counts_loss_ ? labels : 0, at::kLong);
      tokens_ = world_.all_gather(mine.to(device_));
    }
  }
  const double loss_scale = scaler_ ? scaler_->scale() : 1.0;
  executor.run({.microbatches = microbatches, .gradient_scale = tokens > 0 ? loss_scale / tokens : 0.0},
               activation);
  return known_;
}

std::optional<StepOutcome> TrainingStep::finish() {
  if (exchange_.done()) return std::nullopt;
  return collect();
}

void TrainingStep::reduce_tied(int32_t /*chunk*/) { tied_.start(); }
void TrainingStep::wait_reduce_tied(int32_t /*chunk*/) { tied_.finish(); }

void TrainingStep::norm(std::span<const layers::Loss> losses) {
  if (!exchange_.done()) known_ = collect();
  for (size_t chunk = 0; chunk < model_.stages.size(); ++chunk) partial_sums_.complete(chunk);
  ExactSum loss_sum, squares;
  int64_t tokens = 0;
  if (counts_loss_) {
    for (const layers::Loss& loss : losses) {
      loss_sum.add(loss.sum);
      tokens += loss.tokens;
    }
  }
  if (counts_squares_) {
    for (const StageModel& stage : model_.stages) {
      for (const tensor::Segment& segment : stage.segments) {
        optim::add_squares(
            segment,
            [&](const tensor::Parameter& parameter) {
              return tied_.counts(parameter) && coordinates_.mp % parameter.copies == 0;
            },
            squares);
      }
    }
  }
  const tensor::MemoryStats memory = tensor::memory_stats(device_);
  at::Tensor mine = at::empty({kStepExchangeNumel}, at::kLong);
  auto* words = mine.mutable_data_ptr<int64_t>();
  words[kStop] = stop_requested_ ? 1 : 0;
  words[kTokens] = tokens;
  words[kAllocated] = memory.allocated_bytes;
  words[kReserved] = memory.reserved_bytes;
  words[kMaxAllocated] = memory.max_allocated_bytes;
  words[kMaxReserved] = memory.max_reserved_bytes;
  words[kOverflowedLayer] = std::isfinite(squares.value()) ? -1 : last_overflowed_layer();
  std::ranges::copy(loss_sum.words(), words + kSlots);
  std::ranges::copy(squares.words(), words + kSlots + ExactSum::kWords);
  exchange_ = world_.all_gather(mine.to(device_));
  exchanged_ = step_;
}

void TrainingStep::wait_norm() {
  known_ = collect();
  if (scaler_) scaler_->update(known_->skipped);
  if (known_->skipped) return;
  gradient_scale_ = optim::clip_coefficient(known_->grad_norm, training_.max_grad_norm);
  if (data_ranks_ > 1) gradient_scale_ *= correction(known_->tokens);
  if (known_->loss_scale) gradient_scale_ /= *known_->loss_scale;
}

int64_t TrainingStep::last_overflowed_layer() const {
  for (size_t i = model_.stages.size(); i-- > 0;) {
    const StageModel& stage = model_.stages[i];
    for (size_t layer = stage.layers.size(); layer-- > 0;) {
      const std::vector<tensor::Parameter*> parameters = layers::parameters_of(*stage.layers[layer]);
      ExactSum squares;
      for (const tensor::Segment& segment : stage.segments) {
        optim::add_squares(
            segment, [&](const tensor::Parameter& one) { return std::ranges::count(parameters, &one) > 0; },
            squares);
      }
      if (std::isfinite(squares.value())) continue;
      const schedule::Place place = {.rank = coordinates_.pp, .chunk = static_cast<int32_t>(i)};
      const int32_t number = schedule::stage_of(plan_.compute, place);
      return plan_.stage_layers[static_cast<size_t>(number)].begin + static_cast<int64_t>(layer);
    }
  }
  return -1;
}

void TrainingStep::update(int32_t chunk, int32_t segment) {
  const auto index = static_cast<size_t>(chunk);
  partial_sums_.complete(index);
  if (!tokens_.done()) gradient_scale_ = correction(tokens_.wait().sum().item<int64_t>());
  const bool is_skipped = known_ && known_->step == step_ && known_->skipped;
  if (!has_begun_[index] && !is_skipped) optimizers_[index].begin_step();
  has_begun_[index] = true;
  const double lr = optim::learning_rate(training_.learning_rate, step_);
  const StageModel& stage = model_.stages[index];
  const auto is_meant = [&](const tensor::Segment& one) {
    return segment == schedule::kAllSegments || one.layout.group == segment;
  };
  for (size_t i = 0; i < stage.segments.size(); ++i) {
    if (!is_meant(stage.segments[i])) continue;
    if (!has_data_axes_) stage.segments[i].end_gradients();
    if (!is_skipped) optimizers_[index].update(i, lr, gradient_scale_);
  }
  for (const tensor::Segment& tied : stage.tied_segments) {
    if (!has_data_axes_ && is_meant(tied)) tied.end_gradients();
  }
}

double TrainingStep::correction(int64_t tokens) const {
  return tokens > 0 ? expected_tokens_ / static_cast<double>(tokens) : 1.0;
}

StepOutcome TrainingStep::collect() {
  StepOutcome outcome = {.step = exchanged_};
  if (scaler_) outcome.loss_scale = scaler_->scale();
  ExactSum loss_sum, squares;
  int64_t overflowed_layer = -1;
  for (const at::Tensor& of_rank : exchange_.wait().cpu().unbind()) {
    const std::span words(of_rank.const_data_ptr<int64_t>(), static_cast<size_t>(of_rank.numel()));
    outcome.stop_requested |= words[kStop] != 0;
    outcome.tokens += words[kTokens];
    overflowed_layer = std::max(overflowed_layer, words[kOverflowedLayer]);
    outcome.memory.push_back({.allocated_bytes = words[kAllocated],
                              .reserved_bytes = words[kReserved],
                              .max_allocated_bytes = words[kMaxAllocated],
                              .max_reserved_bytes = words[kMaxReserved]});
    loss_sum.add(ExactSum::from_words(words.subspan(kSlots, ExactSum::kWords)));
    squares.add(ExactSum::from_words(words.subspan(kSlots + ExactSum::kWords)));
  }
  outcome.loss = outcome.tokens > 0 ? loss_sum.value() / static_cast<double>(outcome.tokens) : 0.0;
  outcome.grad_norm = std::sqrt(squares.value());
  if (data_ranks_ > 1) outcome.grad_norm *= correction(outcome.tokens);
  if (outcome.loss_scale) outcome.grad_norm /= *outcome.loss_scale;
  outcome.skipped = scaler_ && !(std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm));
  require_finite(outcome, overflowed_layer);
  return outcome;
}

void TrainingStep::require_finite(const StepOutcome& outcome, int64_t overflowed_layer) const {
  if (std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm)) return;
  if (scaler_ && !scaler_->is_at_floor()) return;
  const std::string where = overflowed_layer < 0
                                ? std::string()
                                : cat("; the layer nearest to the loss whose gradients are not finite is ",
                                      plan_.model.layers[static_cast<size_t>(overflowed_layer)].name);
  throw ConfigError(
      cat("step ", outcome.step, " gave a loss of ", outcome.loss, " and a gradient norm of ",
          outcome.grad_norm, scaler_ ? cat(" at the smallest loss scale, ", scaler_->scale()) : "",
          ": the training diverged; lower the learning rate or the norm that gradients are clipped "
          "to, or warm up longer",
          where));
}

}  // namespace braid::train
