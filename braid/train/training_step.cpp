#include "braid/train/training_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/optim/clipping.h"
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

TrainingStep::TrainingStep(const PipelinePlan& plan, const RankModel& model, pipeline::Executor& executor,
                           TiedWeight& tied, optim::AdamW& adamw, comm::Communicator& pipeline,
                           const TrainingStepOptions& options)
    : executor_(executor), tied_(tied), adamw_(adamw), pipeline_(pipeline), options_(options) {
  std::string counts;
  for (size_t chunk = 0; chunk < static_cast<size_t>(plan.compute.shape.chunks_per_rank); ++chunk) {
    std::vector<tensor::Parameter*> counted = model.stages.at(chunk).parameters();
    std::erase_if(counted, [&](const tensor::Parameter* parameter) { return !tied.counts(*parameter); });
    counted_.insert(counted_.end(), counted.begin(), counted.end());
    counts += cat(chunk == 0 ? "" : " ", counted.size());
  }
  const std::vector<std::string> of_ranks = pipeline_.all_gather_bytes(counts);
  stage_norms_.resize(static_cast<size_t>(plan.stages()));
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::vector<std::string> of_chunks = split(of_ranks[rank], ' ');
    int64_t begin = 0;
    for (size_t chunk = 0; chunk < of_chunks.size(); ++chunk) {
      const int32_t stage = schedule::stage_of(
          plan.compute, {.rank = static_cast<int32_t>(rank), .chunk = static_cast<int32_t>(chunk)});
      const int64_t count = *parse_int(of_chunks[chunk]);
      stage_norms_[static_cast<size_t>(stage)] = {.rank = rank, .begin = begin, .count = count};
      begin += count;
    }
    most_norms_ = std::max(most_norms_, begin);
  }
}

StepOutcome TrainingStep::run(int64_t step, const std::vector<pipeline::Microbatch>& microbatches,
                              const pipeline::ActivationSpec& activation, bool stop_asked) {
  const int64_t tokens = count_labels(microbatches);
  const std::vector<layers::Loss> losses = executor_.run(
      {.microbatches = microbatches, .gradient_scale = tokens > 0 ? 1.0 / static_cast<double>(tokens) : 0.0},
      activation);
  tied_.join_gradients();

  std::vector<double> mine(kSlots, 0.0);
  for (const layers::Loss& loss : losses) {
    mine[kLossSum] += loss.sum;
    mine[kTokens] += static_cast<double>(loss.tokens);
  }
  const tensor::MemoryStats memory = tensor::memory_stats(options_.device);
  mine[kStop] = stop_asked ? 1.0 : 0.0;
  mine[kAllocated] = static_cast<double>(memory.allocated_bytes);
  mine[kReserved] = static_cast<double>(memory.reserved_bytes);
  mine[kMaxAllocated] = static_cast<double>(memory.max_allocated_bytes);
  mine[kMaxReserved] = static_cast<double>(memory.max_reserved_bytes);
  const std::vector<double> norms = optim::squared_norms(counted_);
  mine.insert(mine.end(), norms.begin(), norms.end());

  StepOutcome outcome;
  double loss_sum = 0;
  std::vector<double> all_norms;  // stage after stage: the order of the model's parameters, however it is cut
  const std::vector<at::Tensor> gathered = exchange(mine);
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    const double* values = gathered[rank].const_data_ptr<double>();
    outcome.stop_asked |= values[kStop] != 0;
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
  require<ConfigError>(std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm), "step ", step,
                       " gave a loss of ", outcome.loss, " and a gradient norm of ", outcome.grad_norm,
                       ": the training diverged; lower --learning_rate or --max_grad_norm, or warm up longer "
                       "(--warmup_steps)");

  adamw_.step(optim::learning_rate(options_.curve, step),
              optim::clip_coefficient(outcome.grad_norm, options_.max_grad_norm));
  return outcome;
}

std::vector<at::Tensor> TrainingStep::exchange(const std::vector<double>& mine) {
  at::Tensor padded = at::zeros({static_cast<int64_t>(kSlots) + most_norms_}, at::kDouble);
  std::ranges::copy(mine, padded.mutable_data_ptr<double>());
  return pipeline_.all_gather(padded.to(options_.device)).wait().cpu().unbind();
}

}  // namespace braid::train
