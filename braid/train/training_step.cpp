#include "braid/train/training_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/optim/clipping.h"
#include "braid/optim/learning_rate.h"
#include "braid/tensor/memory.h"

namespace braid::train {
namespace {

// What each rank tells the others beside its parameters' norms, in this order.
enum Slot : size_t { kStop, kLossSum, kTokens, kAllocated, kReserved, kMaxAllocated, kMaxReserved, kSlots };

int64_t whole(double value) { return static_cast<int64_t>(value); }

}  // namespace

int64_t count_labels(const std::vector<pipeline::Microbatch>& microbatches) {
  int64_t count = 0;
  for (const auto& microbatch : microbatches) {
    if (microbatch.labels.defined()) count += microbatch.labels.ne(-100).sum().item<int64_t>();
  }
  return count;
}

TrainingStep::TrainingStep(const RunPlan& plan, const RankModel& model, TiedWeight& tied,
                           std::span<optim::AdamW> optimizers, comm::Communicator& pipeline,
                           c10::Device device)
    : tied_(tied),
      optimizers_(optimizers),
      pipeline_(pipeline),
      training_(plan.training),
      device_(device),
      numel_(step_exchange_numel(plan)) {
  static_assert(kSlots == kExchangedNumbers);
  for (const StageModel& stage : model.stages) {
    for (tensor::Parameter* parameter : stage.parameters()) {
      if (tied.counts(*parameter)) counted_.push_back(parameter);
    }
  }
  stage_norms_.resize(static_cast<size_t>(plan.stages()));
  for (int32_t rank = 0; rank < std::ssize(plan.ranks); ++rank) {
    int64_t begin = 0;
    for (const int32_t stage : plan.ranks[static_cast<size_t>(rank)].stages) {
      const int64_t count = plan.stage_norms[static_cast<size_t>(stage)];
      stage_norms_[static_cast<size_t>(stage)] = {
          .rank = static_cast<size_t>(rank), .begin = begin, .count = count};
      begin += count;
    }
    require<InternalError>(rank != pipeline_.index() || begin == std::ssize(counted_), "the plan counts ",
                           begin, " norms on this rank, which has ", counted_.size());
  }
}

std::optional<StepOutcome> TrainingStep::run(pipeline::Executor& executor, int64_t step,
                                             const std::vector<pipeline::Microbatch>& microbatches,
                                             const pipeline::ActivationSpec& activation,
                                             bool stop_requested) {
  step_ = step;
  stop_requested_ = stop_requested;
  known_.reset();
  gradient_scale_ = 1.0;
  const int64_t tokens = count_labels(microbatches);
  executor.run(
      {.microbatches = microbatches, .gradient_scale = tokens > 0 ? 1.0 / static_cast<double>(tokens) : 0.0},
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
  std::vector<double> mine(kSlots, 0.0);
  for (const layers::Loss& loss : losses) {
    mine[kLossSum] += loss.sum;
    mine[kTokens] += static_cast<double>(loss.tokens);
  }
  const tensor::MemoryStats memory = tensor::memory_stats(device_);
  mine[kStop] = stop_requested_ ? 1.0 : 0.0;
  mine[kAllocated] = static_cast<double>(memory.allocated_bytes);
  mine[kReserved] = static_cast<double>(memory.reserved_bytes);
  mine[kMaxAllocated] = static_cast<double>(memory.max_allocated_bytes);
  mine[kMaxReserved] = static_cast<double>(memory.max_reserved_bytes);
  const std::vector<double> norms = optim::squared_norms(counted_);
  mine.insert(mine.end(), norms.begin(), norms.end());

  at::Tensor padded = at::zeros({numel_}, at::kDouble);
  std::ranges::copy(mine, padded.mutable_data_ptr<double>());
  exchange_ = pipeline_.all_gather(padded.to(device_));
  exchanged_ = step_;
}

void TrainingStep::wait_norm() {
  known_ = collect();
  gradient_scale_ = optim::clip_coefficient(known_->grad_norm, training_.max_grad_norm);
}

void TrainingStep::update(int32_t chunk) {
  optimizers_[static_cast<size_t>(chunk)].step(optim::learning_rate(training_.learning_rate, step_),
                                               gradient_scale_);
}

StepOutcome TrainingStep::collect() {
  StepOutcome outcome = {.step = exchanged_};
  double loss_sum = 0;
  std::vector<double> all_norms;  // stage after stage: the order of the model's parameters, however it is cut
  const std::vector<at::Tensor> gathered = exchange_.wait().cpu().unbind();
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    const double* values = gathered[rank].const_data_ptr<double>();
    outcome.stop_requested |= values[kStop] != 0;
    loss_sum += values[kLossSum];
    outcome.tokens += whole(values[kTokens]);
    outcome.memory.push_back({.allocated_bytes = whole(values[kAllocated]),
                              .reserved_bytes = whole(values[kReserved]),
                              .max_allocated_bytes = whole(values[kMaxAllocated]),
                              .max_reserved_bytes = whole(values[kMaxReserved])});
  }
  for (const StageNorms& stage : stage_norms_) {
    const double* begin = gathered[stage.rank].const_data_ptr<double>() + kSlots + stage.begin;
    all_norms.insert(all_norms.end(), begin, begin + stage.count);
  }
  outcome.loss = outcome.tokens > 0 ? loss_sum / static_cast<double>(outcome.tokens) : 0.0;
  outcome.grad_norm = optim::gradient_norm(all_norms);
  require<ConfigError>(
      std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm), "step ", outcome.step,
      " gave a loss of ", outcome.loss, " and a gradient norm of ", outcome.grad_norm,
      ": the training diverged; lower the learning rate or the norm that gradients are clipped to, or "
      "warm up longer");
  return outcome;
}

}  // namespace braid::train
