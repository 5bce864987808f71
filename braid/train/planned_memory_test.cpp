// What a rank holds after every action of a step, held against the plan: layers' records by their own count,
// and all live tensors by the allocator's, weights, gradients and optimizer states included.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <tuple>

#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/tensor/memory.h"
#include "braid/train/memory_test_support.h"
#include "braid/train/recomputation.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;

// Sizes of which every tensor is a multiple of the allocator's unit: counts are then equal to the byte.
constexpr int64_t kTokens = 16;
constexpr int64_t kSequences = 2;
constexpr int64_t kTokenBytes = 8;
const config::ModelConfig kModel = {.vocab_size = 64,
                                    .hidden_size = 32,
                                    .intermediate_size = 48,
                                    .num_hidden_layers = 9,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .max_position_embeddings = 16};

/// Holds what the rank has against the plan after every action but those that end a step.
class MemoryWitness final : public pipeline::Observer {
 public:
  /// `before` bytes were allocated before the trainer was made.
  MemoryWitness(const Trainer& trainer, int64_t before)
      : trainer_(trainer),
        plan_(trainer.plan()),
        mine_(plan_.rank_at(trainer.coordinates())),
        before_(before) {
    const int64_t element_bytes = plan_.training.precision == config::Precision::kBfloat16 ? 2 : 4;
    message_bytes_ = kSequences * kTokens * plan_.model.hidden * element_bytes;
    // By a byte in flight from each neighbour a link learns when that is gone.
    std::set<int> neighbours;
    for (const auto& [route, tally] : mine_.messages.tallies) neighbours.insert(route.peer);
    link_bytes_ = tensor::kAllocationUnitBytes * std::ssize(neighbours);
    travelling_most_ = schedule::peak_handovers(plan_.step)[static_cast<size_t>(trainer.rank())];
  }

  void after(const Action& action, const pipeline::ActionTimes& /*times*/) override {
    if (class_of(action.op) == schedule::OpClass::kStepEnd) return;
    kept_ += schedule::memory_change(plan_.compute, plan_.memory_bytes, trainer_.rank(), action);
    travelling_ += schedule::handover_change(plan_.step, trainer_.rank(), action);
    const std::string where = cat("after ", to_string(action), " of rank ", trainer_.rank());
    ASSERT_EQ(trainer_.kept_bytes(), kept_) << where;
    // The embedding keeps the step's own tokens: no new tensor.
    const bool is_embedding = action.chunk == 0 && plan_.first_rank() == trainer_.rank();
    if (is_embedding && action.op == Op::kForward) tokens_ += kSequences * kTokens * kTokenBytes;
    if (is_embedding && is_weight_gradient(action.op)) tokens_ -= kSequences * kTokens * kTokenBytes;
    const PlannedMemory& planned = mine_.memory;
    const int64_t constant_buffers = planned.buffers - travelling_most_ * message_bytes_;
    const int64_t expected = planned.weights + planned.gradients + planned.optimizer_states +
                             constant_buffers + kept_ - tokens_ + travelling_ * message_bytes_ + link_bytes_;
    ASSERT_EQ(settled_bytes(before_, expected), expected) << where;
    most_kept_ = std::max(most_kept_, kept_);
    most_travelling_ = std::max(most_travelling_, travelling_);
  }

  int64_t most_kept() const { return most_kept_; }
  int64_t most_travelling() const { return most_travelling_; }

 private:
  const Trainer& trainer_;
  const RunPlan& plan_;
  const RankPlan& mine_;
  int64_t before_;
  int64_t message_bytes_ = 0;
  int64_t link_bytes_ = 0;
  int64_t travelling_most_ = 0;
  int64_t travelling_ = 0;
  int64_t kept_ = 0;
  int64_t tokens_ = 0;
  int64_t most_kept_ = 0;
  int64_t most_travelling_ = 0;
};

void run_rank(Trainer::Options options) {
  at::set_num_threads(1);
  const tensor::ArenaScope memory_of_this_rank;
  std::vector<pipeline::Microbatch> microbatches;
  for (int64_t i = 0; i < options.training.microbatches; ++i) {
    const at::Tensor tokens = at::full({kSequences, kTokens}, i, at::kLong);
    microbatches.push_back({.tokens = tokens, .labels = tokens});
  }
  const int64_t before = tensor::memory_stats().allocated_bytes;
  Trainer trainer(options);
  for (int step = 0; step < 2; ++step) {
    MemoryWitness witness(trainer, before);
    trainer.observe(&witness);
    trainer.step(microbatches);
    trainer.observe(nullptr);
    EXPECT_EQ(witness.most_travelling(),
              schedule::peak_handovers(trainer.plan().step)[static_cast<size_t>(trainer.rank())]);
    EXPECT_EQ(witness.most_kept(), trainer.plan().rank_at(trainer.coordinates()).memory.kept_activations);
  }
  trainer.world().barrier().wait();
}

class PlannedMemoryOf : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(PlannedMemoryOf, EverythingIsHeldToTheByteAfterEveryActionOfEverySchedule) {
  tensor::install_cpu_allocator();
  const auto [pp, bf16] = GetParam();
  config::ModelConfig config = kModel;
  int schedules = 0;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int32_t chunks : {1, 2}) {
      if (mode.chunks && *mode.chunks != chunks) continue;
      const auto recompute = static_cast<config::Recomputation>((schedules + pp + (bf16 ? 1 : 0)) % 4);
      const config::Strategy strategy = {.mesh = {.pp = pp},
                                         .recompute = recompute,
                                         .early_weight_gradients = schedules % 2 == pp / 2 % 2,
                                         .chunks_per_rank = chunks,
                                         .schedule_mode = std::string(mode.name),
                                         .durations = schedule::parse_durations("1,1.2,0.8,0.1", chunks),
                                         .receives = schedules % 2 == 0
                                                         ? schedule::ReceivePosting::kEarly
                                                         : schedule::ReceivePosting::kJustInTime};
      const config::TrainingOptions training = {
          .microbatch_sequences = kSequences,
          .sequence_tokens = kTokens,
          .microbatches = 8,
          .precision = bf16 ? config::Precision::kBfloat16 : config::Precision::kFloat32};
      config.tie_word_embeddings = schedules % 3 == 1;
      SCOPED_TRACE(::testing::Message()
                   << mode.name << ", " << chunks << " chunks, recomputation " << name_of(recompute));
      ++schedules;
      comm::run_ranks(pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        run_rank({.strategy = strategy,
                  .training = training,
                  .model = model::llama_spec(config),
                  .place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)},
                  .initialise = [](std::span<tensor::Parameter* const> all) {
                    model::initialise(all, {.seed = 1});
                  }});
      });
    }
  }
  EXPECT_GE(schedules, 13);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, PlannedMemoryOf,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
