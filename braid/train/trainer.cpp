#include "braid/train/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/exact_sum.h"
#include "braid/base/text.h"
#include "braid/optim/state_store.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/passes/forward_only.h"
#include "braid/train/part_times.h"
#include "braid/train/plan_text.h"
#include "braid/train/recomputation.h"

namespace braid::train {
namespace {

/// Of the tensor's bits: FNV-1a over bytes, http://www.isthe.com/chongo/tech/comp/fnv.
uint64_t checksum(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  const std::span bytes(static_cast<const uint8_t*>(values.const_data_ptr()), values.nbytes());
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

}  // namespace

Trainer::Training::Training(Trainer& trainer)
    : optimizers([&] {
        std::vector<optim::AdamW> made;
        for (const StageModel& stage : trainer.model_.stages) {
          made.emplace_back(stage.segments, trainer.make_state_store(stage), trainer.plan_.training.adamw);
        }
        return made;
      }()),
      partial_sums(trainer.model_, trainer.mp_.get(), trainer.copies_.get()),
      step(trainer.plan_, trainer.model_, trainer.groups_.coordinates, partial_sums, trainer.tied_,
           optimizers, trainer.world_, trainer.options_.place.device),
      executor(trainer.make_executor(trainer.plan_.step, &step.step_end())) {}

Trainer::Trainer(Options options)
    : options_(std::move(options)),
      groups_(groups_of(options_.strategy.mesh, options_.place)),
      world_(options_.place.store, groups_.world, groups_.backend, comm::CallCheck::kOff),
      mp_(connect(groups_.mp)),
      plan_(make_plan()),
      sharding_(connect(groups_.sharding)),
      copies_(connect_copies()),
      dp_(connect(groups_.dp)),
      link_(connect_link(plan_, options_.place, groups_)),
      model_(build_model()),
      mover_(plan_.step.data.is_on()
                 ? std::make_unique<SegmentMover>(model_, plan_.step, sharding_.get(), dp_.get())
                 : nullptr),
      tied_(model_, plan_, rank(), link_.get()) {
  for (const StageModel& stage : model_.stages) chunks_.emplace_back(stage.layers, stage.groups);
  require_same_tied_values();
  if (plan_.training.max_steps > 0) training_ = std::make_unique<Training>(*this);
}

std::unique_ptr<comm::Communicator> Trainer::connect(const comm::Group& group) const {
  if (group.size() == 1) return nullptr;
  return std::make_unique<comm::Communicator>(options_.place.store, group, groups_.backend,
                                              comm::CallCheck::kOff);
}

std::unique_ptr<comm::Communicator> Trainer::connect_copies() const {
  int32_t copies = 1;
  for (const std::span<const layers::LayerSpec> stage : plan_.layers_of_rank(rank())) {
    for (const layers::LayerSpec& spec : stage) {
      const auto layer = layers::make_without_data(spec, placement());
      for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) {
        if (parameter->partial_over < groups_.mp.size()) copies = std::max(copies, parameter->partial_over);
      }
    }
  }
  if (copies == 1) return nullptr;
  comm::Group group = {.axis = "mp-copies", .ranks = {}, .index = groups_.mp.index % copies};
  const int first = groups_.mp.index - group.index;
  for (int i = 0; i < copies; ++i) group.ranks.push_back(groups_.mp.ranks[static_cast<size_t>(first + i)]);
  return connect(group);
}

layers::Placement Trainer::placement() const {
  return {.device = options_.place.device,
          .mp_index = groups_.coordinates.mp,
          .mp_degree = groups_.mp.size(),
          .sequence_parallel = options_.strategy.sequence_parallel && groups_.mp.size() > 1,
          .mp = mp_.get()};
}

int64_t Trainer::data_rank() const {
  return int64_t{plan_.strategy.mesh.sharding} * groups_.coordinates.dp + groups_.coordinates.sharding;
}

comm::CollectiveTraffic Trainer::traffic(mesh::Axis axis) const {
  comm::CollectiveTraffic sum;
  const auto add = [&](const std::unique_ptr<comm::Communicator>& communicator) {
    if (communicator == nullptr) return;
    for (const auto& [collective, tally] : communicator->traffic().tallies) {
      sum.tallies[collective].count += tally.count;
      sum.tallies[collective].bytes += tally.bytes;
    }
  };
  if (axis == mesh::Axis::kMp) {
    add(mp_);
    add(copies_);
  }
  if (axis == mesh::Axis::kSharding) add(sharding_);
  if (axis == mesh::Axis::kDp) add(dp_);
  return sum;
}

void Trainer::gather_values() {
  if (mover_) mover_->gather_all_values();
}

void Trainer::release_values() {
  if (mover_) mover_->release_all_values();
}

RunPlan Trainer::make_plan() {
  PartTimes times;
  if (options_.training.max_steps > 0 && needs_times(options_.strategy)) {
    require<ConfigError>(
        static_cast<bool>(options_.sample), "schedule ", options_.strategy.schedule_mode,
        " depends on how long layers take: set Strategy::durations, or Trainer::Options::sample "
        "to measure them");
    times = measure_parts(layers_of_all_kinds(options_.strategy, options_.model), options_.sample(),
                          activation(options_.training.microbatch_sequences), placement(), world_);
  }
  RunPlan plan = make_run_plan(options_.strategy, options_.training, options_.model, times,
                               options_.place.device.type());
  require_same_on_all_ranks(plan);
  return plan;
}

void Trainer::require_same_on_all_ranks(const RunPlan& plan) {
  // A file with a schedule may differ from node to node, and a program may give its ranks different options.
  const std::string mine =
      cat(schedule::to_string(plan.step), plan_json(plan), config::to_string(plan.training));
  const std::vector<std::string> all = world_.all_gather_bytes(mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    require<ConfigError>(
        all[rank] == all.front(), "rank ", rank, " has another plan than rank 0 (schedule ",
        plan.compute.name,
        "): all ranks must be given the same model, strategy and training options, and see the "
        "same file with a schedule");
  }
}

void Trainer::require_same_tied_values() {
  if (!plan_.tied || plan_.tied->is_local()) return;
  std::string mine;
  for (const tensor::Parameter* parameter : model_.parameters()) {
    if (parameter->slices.front().name != plan_.tied->slices.front().name) continue;
    mine = cat(checksum(model_.segment_of(*parameter).own_values));
  }
  const std::vector<std::string> all = world_.all_gather_bytes(mine);
  const auto of_pipeline_rank = [&](int32_t rank) {
    mesh::Coordinates place = groups_.coordinates;
    place.pp = rank;
    return all[static_cast<size_t>(mesh::rank_of(plan_.strategy.mesh, place))];
  };
  require<ConfigError>(
      of_pipeline_rank(plan_.tied->first_rank) == of_pipeline_rank(plan_.tied->last_rank), "the weight ",
      plan_.tied->slices.front().name,
      ", which two layers share, begins with different values in the two: give both the same");
}

RankModel Trainer::build_model() {
  // What it holds on to, such as open files, is needed only here.
  const tensor::FillValues initialise = std::exchange(options_.initialise, {});
  const auto fill = [&](std::span<tensor::Parameter* const> parameters) {
    if (initialise) return initialise(parameters);
    for (const tensor::Parameter* parameter : parameters) {
      require<ConfigError>(parameter->initial == tensor::InitialValues::kGiven, "parameter ", parameter->name,
                           " has no values of its own: set Trainer::Options::initialise");
    }
  };
  return make_rank_model(plan_.layers_of_rank(rank()), plan_.layout(), placement(),
                         dtype_of(plan_.training.precision), plan_.holding(groups_.coordinates), fill);
}

std::unique_ptr<optim::StateStore> Trainer::make_state_store(const StageModel& stage) const {
  const config::Strategy& strategy = plan_.strategy;
  const at::Device device = options_.place.device;
  if (!strategy.offloads_optimizer) return optim::make_memory_store();
  if (strategy.offload_dir.empty()) {
    require<ConfigError>(!device.is_cpu(),
                         "Strategy::offloads_optimizer on a CPU keeps the optimizer's states in a file: set "
                         "Strategy::offload_dir, the directory for it");
    return optim::make_pinned_store(device);
  }
  int64_t bytes = 0;
  for (const tensor::Segment& segment : stage.segments) bytes += optim::state_bytes(segment);
  return optim::make_file_store({.directory = strategy.offload_dir,
                                 .rank = options_.place.world.rank,
                                 .total_bytes = bytes,
                                 .device = device});
}

pipeline::Executor Trainer::make_executor(schedule::Schedule schedule, pipeline::StepEnd* step_end) {
  std::vector<pipeline::Chunk*> chunks;
  for (pipeline::LayerChunk& chunk : chunks_) chunks.push_back(&chunk);
  return pipeline::Executor({.schedule = std::move(schedule),
                             .rank = rank(),
                             .chunks = std::move(chunks),
                             .link = link_.get(),
                             .step_end = step_end,
                             .segments = mover_.get()});
}

pipeline::ActivationSpec Trainer::activation(int64_t sequences) const {
  const config::TrainingOptions& training = options_.training;
  const bool is_cut = placement().sequence_parallel;
  return {.sequences = sequences,
          .sequence_tokens = is_cut ? training.sequence_tokens / groups_.mp.size() : training.sequence_tokens,
          .hidden = options_.model.hidden,
          .options = at::TensorOptions(options_.place.device).dtype(dtype_of(training.precision))};
}

std::vector<pipeline::Microbatch> Trainer::on_device(std::span<const pipeline::Microbatch> microbatches,
                                                     int64_t sequences) const {
  const int64_t tokens = plan_.training.sequence_tokens;
  const auto moved = [&](const at::Tensor& tensor, const char* name) {
    require<ConfigError>(
        tensor.defined() && tensor.dim() >= 2 && tensor.size(0) == sequences && tensor.size(1) == tokens,
        "the ", name, " of a microbatch must be [", sequences, ", ", tokens, ", ...], got ",
        tensor.defined() ? cat(tensor.sizes()) : "no tensor");
    return tensor.to(options_.place.device);
  };
  const bool begins = plan_.first_rank() == rank(), ends = plan_.last_rank() == rank();
  std::vector<pipeline::Microbatch> result;
  for (const pipeline::Microbatch& microbatch : microbatches) {
    pipeline::Microbatch& mine = result.emplace_back();
    if (begins) mine.tokens = moved(microbatch.tokens, "tokens");
    if (begins && mine.tokens.is_floating_point())
      mine.tokens = mine.tokens.to(dtype_of(plan_.training.precision));
    if (ends) mine.labels = moved(microbatch.labels, "labels");
  }
  return result;
}

std::vector<tensor::Parameter*> Trainer::parameters() const {
  std::vector<tensor::Parameter*> parameters = model_.parameters();
  std::erase_if(parameters, [&](const tensor::Parameter* parameter) { return !tied_.counts(*parameter); });
  return parameters;
}

int64_t Trainer::kept_bytes() const {
  int64_t sum = 0;
  for (const pipeline::LayerChunk& chunk : chunks_) sum += chunk.saved_bytes();
  return sum;
}

void Trainer::observe(pipeline::Observer* observer) {
  if (training_) training_->executor.observe(observer);
}

void Trainer::require_usable() const {
  require<ConfigError>(!is_running_,
                       "an earlier step or evaluation failed: this trainer cannot be used again");
}

std::optional<StepOutcome> Trainer::step(std::span<const pipeline::Microbatch> microbatches) {
  require_usable();
  const config::TrainingOptions& training = plan_.training;
  require<ConfigError>(training_ != nullptr,
                       "TrainingOptions::max_steps is 0: nothing was prepared for training");
  require<ConfigError>(std::ssize(microbatches) == training.microbatches, "a step takes ",
                       counted(training.microbatches, "microbatch", "microbatches"), ", got ",
                       microbatches.size());
  const std::vector<pipeline::Microbatch> mine = on_device(microbatches, training.microbatch_sequences);
  is_running_ = true;
  ++steps_;
  std::optional<StepOutcome> outcome = training_->step.run(
      training_->executor, steps_, mine, activation(training.microbatch_sequences), stop_requested_);
  is_running_ = false;
  return outcome;
}

std::optional<StepOutcome> Trainer::finish() {
  require_usable();
  return training_ ? training_->step.finish() : std::nullopt;
}

Evaluation Trainer::evaluate(std::span<const pipeline::Microbatch> microbatches) {
  require_usable();
  const int64_t sequences = plan_.training.evaluation_sequences;
  require<ConfigError>(sequences > 0,
                       "TrainingOptions::evaluation_sequences is 0: nothing was prepared for evaluations");
  const std::vector<pipeline::Microbatch> mine = on_device(microbatches, sequences);
  is_running_ = true;
  pipeline::Executor executor =
      make_executor(schedule::forward_only(plan_.step, static_cast<int32_t>(mine.size())), nullptr);
  ExactSum sum;
  int64_t tokens = 0;
  const std::vector<layers::Loss> losses = executor.evaluate({.microbatches = mine}, activation(sequences));
  if (groups_.coordinates.mp == 0) {
    for (const layers::Loss& loss : losses) {
      sum.add(loss.sum);
      tokens += loss.tokens;
    }
  }
  at::Tensor words = at::full({1 + static_cast<int64_t>(ExactSum::kWords)}, tokens, at::kLong);
  std::ranges::copy(sum.words(), words.mutable_data_ptr<int64_t>() + 1);
  ExactSum total;
  Evaluation evaluation;
  for (const at::Tensor& of_rank : world_.all_gather(words.to(options_.place.device)).wait().cpu().unbind()) {
    const std::span all(of_rank.const_data_ptr<int64_t>(), static_cast<size_t>(of_rank.numel()));
    evaluation.tokens += all.front();
    total.add(ExactSum::from_words(all.subspan(1)));
  }
  is_running_ = false;
  evaluation.loss = total.value() / static_cast<double>(evaluation.tokens);
  return evaluation;
}

}  // namespace braid::train
