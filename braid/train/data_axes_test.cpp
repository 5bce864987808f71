// Training with sharding and dp: the promised bits, one rank's numbers, memory and messages as planned.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/schedule/memory.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"
#include "braid/train/segment_plan.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

using config::ReduceTiming;
using schedule::Action;
using schedule::Op;

constexpr int64_t kSequences = 2, kTokens = 16;
constexpr int kSteps = 3;

/// Sizes of which every tensor is a multiple of the allocator's unit: counts are then equal to the byte.
config::ModelConfig model_config(bool tied) {
  return {.vocab_size = 64,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 4,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .max_position_embeddings = kTokens,
          .tie_word_embeddings = tied};
}

struct Case {
  config::Strategy strategy;
  int64_t microbatches = 4;  ///< of each data rank
  bool bf16 = false;
  bool tied = false;
  double max_grad_norm = 0.5;
  bool some_labels = false;  ///< the data ranks have labels for different numbers of tokens
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << mesh::to_string(c.strategy.mesh) << ", " << c.strategy.schedule_mode << ", chunks "
             << c.strategy.chunks_per_rank << ", stage " << c.strategy.sharding_stage << ", "
             << (c.strategy.reduce_timing() == ReduceTiming::kStep ? "reduced once a step"
                                                                   : "each microbatch")
             << (c.bf16 ? ", bf16" : "") << (c.tied ? ", tied" : "");
}

struct Result {
  std::vector<double> losses, norms;
  std::vector<int64_t> tokens;
  double evaluation = 0;
  std::map<std::string, at::Tensor> weights;
};

/// Microbatch number `number` of all data ranks in a step.
pipeline::Microbatch microbatch(int64_t step, int64_t number, bool some_labels) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(1000 * step + number));
  const at::Tensor text = at::randint(0, 64, {kSequences, kTokens + 1}, generator, at::kLong);
  pipeline::Microbatch result = {.tokens = text.narrow(1, 0, kTokens).contiguous(),
                                 .labels = text.narrow(1, 1, kTokens).contiguous()};
  if (some_labels) result.labels.narrow(1, 0, number % 3 * 4).fill_(-100);
  return result;
}

std::vector<pipeline::Microbatch> microbatches_of(const Trainer& trainer, int64_t step, bool some_labels) {
  const int64_t ranks = trainer.plan().data_ranks();
  std::vector<pipeline::Microbatch> result;
  for (int64_t i = 0; i < trainer.plan().training.microbatches; ++i) {
    result.push_back(microbatch(step, i * ranks + trainer.data_rank(), some_labels));
  }
  return result;
}

Trainer::Options options_of(const Case& c, const comm::World& world,
                            const c10::intrusive_ptr<c10d::Store>& store) {
  return {.strategy = c.strategy,
          .training = {.microbatch_sequences = kSequences,
                       .sequence_tokens = kTokens,
                       .microbatches = c.microbatches,
                       .max_steps = kSteps,
                       .evaluation_sequences = kSequences,
                       .precision = c.bf16 ? config::Precision::kBfloat16 : config::Precision::kFloat32,
                       .learning_rate = {.peak = 1e-2},
                       .adamw = {.weight_decay = 0.1},
                       .max_grad_norm = c.max_grad_norm},
          .model = model::llama_spec(model_config(c.tied)),
          .place = {.world = world, .store = store, .timeout = std::chrono::seconds(20)},
          .initialise = [](std::span<tensor::Parameter* const> all) { model::initialise(all, {.seed = 3}); }};
}

Result run(const Case& c) {
  Result result;
  std::mutex mutex;
  const auto ranks = static_cast<int>(c.strategy.mesh.world_size());
  comm::run_ranks(ranks, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    Trainer trainer(options_of(c, world, store));
    Result mine;
    const auto note = [&](const std::optional<StepOutcome>& outcome) {
      if (!outcome) return;
      mine.losses.push_back(outcome->loss);
      mine.norms.push_back(outcome->grad_norm);
      mine.tokens.push_back(outcome->tokens);
    };
    for (int64_t step = 1; step <= kSteps; ++step) {
      note(trainer.step(microbatches_of(trainer, step, c.some_labels)));
    }
    note(trainer.finish());
    mine.evaluation = trainer.evaluate(microbatches_of(trainer, 0, c.some_labels)).loss;
    trainer.gather_values();
    trainer.world().barrier().wait();
    const std::lock_guard lock(mutex);
    for (const tensor::Parameter* parameter : trainer.parameters()) {
      const std::string name = cat(parameter->name, " of mp ", trainer.coordinates().mp);
      const auto [found, is_new] = result.weights.try_emplace(name, parameter->value.clone());
      EXPECT_TRUE(at::equal(found->second, parameter->value))
          << parameter->name << " differs between data ranks";
    }
    trainer.release_values();
    if (result.losses.empty()) {
      result.losses = mine.losses;
      result.norms = mine.norms;
      result.tokens = mine.tokens;
      result.evaluation = mine.evaluation;
    }
    EXPECT_EQ(mine.losses, result.losses) << "all ranks know the same outcome";
    EXPECT_EQ(mine.norms, result.norms);
  });
  EXPECT_EQ(result.losses.size(), static_cast<size_t>(kSteps));
  return result;
}

void expect_same_bits(const Result& got, const Result& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.norms, expected.norms);
  EXPECT_EQ(got.evaluation, expected.evaluation);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (const auto& [name, value] : expected.weights)
    EXPECT_TRUE(at::equal(got.weights.at(name), value)) << name;
}

/// One rank does in a step what all data ranks do together. Each microbatch is computed alike, so the first
/// loss has the same bits, and the first norm differs by the order in which `microbatches` gradients are
/// added in float32 (and, where `norm_bound` says so, by gradients of 16 bits that are scaled before they are
/// rounded). From then on weights differ: Adam divides each gradient by its own magnitude, and so turns a
/// difference of rounding into one of the size of the learning rate where the gradient is rounding error
/// alone; losses move by the square root of such elements' number at most.
void expect_close(const Result& got, const Result& expected, double norm_bound, double loss_bound) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.losses.front(), expected.losses.front());
  EXPECT_NEAR(got.norms.front(), expected.norms.front(), norm_bound * expected.norms.front());
  for (size_t i = 1; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], loss_bound * expected.losses[i]) << "step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, expected.evaluation, loss_bound * expected.evaluation);
}

/// The same training on one rank, with as many microbatches as all data ranks have.
Case on_one_rank(const Case& c) {
  Case one = c;
  one.strategy = {};
  one.microbatches = c.microbatches * c.strategy.mesh.sharding * c.strategy.mesh.dp;
  return one;
}

config::Strategy strategy_of(mesh::MeshShape mesh, int32_t stage, std::optional<ReduceTiming> timing = {}) {
  return {.mesh = mesh,
          .sharding_stage = stage,
          .sharding_reduce = timing,
          .durations = schedule::Durations{},
          // Several segments in each stage.
          .segment_bytes = 8 * 1024};
}

class DataAxes : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override { tensor::install_cpu_allocator(); }
  Case make(const config::Strategy& strategy) const {
    return {.strategy = strategy, .bf16 = std::get<0>(GetParam()), .tied = std::get<1>(GetParam())};
  }
  // Of the losses: an ulp of the weights' dtype in every weight, 2^-8 or 2^-24, moves a logit, a sum of 32
  // products of both signs, by about as much, and the mean over 100 and more tokens by less.
  double loss_bound() const { return std::get<0>(GetParam()) ? 0x1p-8 : 32 * 0x1p-24; }
  // Of the first norm: 8 additions in float32 for each element.
  // Each product of the forward pass is summed in two halves: an ulp of the dtype in each of a dozen layers
  // moves the loss by some ulps, the gradients' norm by more, and later steps as in expect_close.
  void expect_close_after_other_sums(const Result& got, const Result& expected) const {
    const double ulp = std::get<0>(GetParam()) ? 0x1p-8 : 0x1p-24;
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_NEAR(got.losses.front(), expected.losses.front(), 4 * ulp * expected.losses.front());
    EXPECT_NEAR(got.norms.front(), expected.norms.front(), 16 * ulp * expected.norms.front());
    for (size_t i = 1; i < expected.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], expected.losses[i], 2 * loss_bound() * expected.losses[i])
          << "step " << i + 1;
    }
  }
  static constexpr double kNormBound = 8 * 0x1p-24;
};

TEST_P(DataAxes, StagesZeroAndOneHaveTheSameBitsAndStagesTwoAndThree) {
  for (const mesh::MeshShape& mesh :
       {mesh::MeshShape{.sharding = 2}, {.sharding = 3}, {.sharding = 2, .dp = 2}}) {
    SCOPED_TRACE(mesh::to_string(mesh));
    const Result zero = run(make(strategy_of(mesh, 0)));
    expect_same_bits(run(make(strategy_of(mesh, 1))), zero);
    const Result two = run(make(strategy_of(mesh, 2)));
    expect_same_bits(run(make(strategy_of(mesh, 3))), two);
    expect_close(zero, run(on_one_rank(make(strategy_of(mesh, 0)))), kNormBound, loss_bound());
    expect_close(two, zero, kNormBound, loss_bound());
    for (const int32_t stage : {0, 1}) {
      SCOPED_TRACE(cat("each microbatch, stage ", stage));
      expect_same_bits(run(make(strategy_of(mesh, stage, ReduceTiming::kMicrobatch))), two);
    }
    for (const int32_t stage : {2, 3}) {
      SCOPED_TRACE(cat("once a step, stage ", stage));
      expect_same_bits(run(make(strategy_of(mesh, stage, ReduceTiming::kStep))), zero);
    }
  }
}

TEST_P(DataAxes, BitsDoNotDependOnThePipelineNorOnSegments) {
  for (const int32_t stage : {1, 2, 3}) {
    const Result expected = run(make(strategy_of({.sharding = 2}, stage)));
    for (const int32_t pp : {1, 2, 4}) {
      for (const auto& [mode, chunks] :
           {std::pair("FThenB", 1), {"1F1B", 1}, {"ZBH1", 1}, {"VPP", 2}, {"ZBVPP", 2}}) {
        if (pp * chunks > 4) continue;
        config::Strategy strategy = strategy_of({.sharding = 2, .pp = pp}, stage);
        strategy.schedule_mode = mode;
        strategy.chunks_per_rank = chunks;
        if (pp == 2) strategy.segment_bytes = int64_t{32} << 20;
        SCOPED_TRACE(::testing::PrintToString(make(strategy)));
        expect_same_bits(run(make(strategy)), expected);
      }
    }
  }
}

TEST_P(DataAxes, DpAloneIsOneRanksTraining) {
  const Case two = make(strategy_of({.pp = 2, .dp = 2}, 1));
  expect_close(run(two), run(on_one_rank(two)), kNormBound, loss_bound());
}

// Data ranks whose microbatches have labels for different numbers of tokens still train on the mean over all
// tokens.
TEST_P(DataAxes, TheLossIsOverAllTokensOfAllDataRanks) {
  for (const double max_grad_norm : {0.5, 0.0}) {
    for (const mesh::MeshShape& mesh : {mesh::MeshShape{.sharding = 2, .dp = 2}, {.sharding = 2, .pp = 2}}) {
      Case c = make(strategy_of(mesh, 2));
      c.microbatches = 3;
      c.max_grad_norm = max_grad_norm;
      c.some_labels = true;
      SCOPED_TRACE(cat(::testing::PrintToString(c), ", clipping ", max_grad_norm));
      // Another scale rounds the logits' gradients otherwise, and with them all that follow from them.
      expect_close(run(c), run(on_one_rank(c)), c.bf16 ? 0x1p-8 : 64 * 0x1p-24, loss_bound());
    }
  }
}

// Products are cut: their sums have another order. Everything else is as with one mp rank.
TEST_P(DataAxes, MpIsOneRanksTrainingWithinRounding) {
  const Result expected = run(on_one_rank(make(strategy_of({.mp = 2}, 1))));
  for (const bool sequence_parallel : {false, true}) {
    for (const mesh::MeshShape& mesh : {mesh::MeshShape{.mp = 2}, {.mp = 2, .pp = 2}}) {
      config::Strategy strategy = strategy_of(mesh, 1);
      strategy.sequence_parallel = sequence_parallel;
      strategy.schedule_mode = mesh.pp == 1 ? "1F1B" : "ZBH1";
      SCOPED_TRACE(cat(mesh::to_string(mesh), sequence_parallel ? ", sequence parallel" : ""));
      expect_close_after_other_sums(run(make(strategy)), expected);
    }
  }
}

// With mp, too, neither the pipeline nor the stages change a bit.
TEST_P(DataAxes, AllAxesTogetherKeepThePromises) {
  for (const bool sequence_parallel : {false, true}) {
    const auto strategy = [&](mesh::MeshShape mesh, int32_t stage, const char* mode, int32_t chunks) {
      config::Strategy result = strategy_of(mesh, stage);
      result.sequence_parallel = sequence_parallel;
      result.schedule_mode = mode;
      result.chunks_per_rank = chunks;
      return make(result);
    };
    const auto expect_bits_of = [](const Case& c, const Result& expected) {
      SCOPED_TRACE(::testing::PrintToString(c));
      expect_same_bits(run(c), expected);
    };
    const Result one = run(strategy({.mp = 2, .sharding = 2}, 1, "1F1B", 1));
    expect_bits_of(strategy({.mp = 2, .sharding = 2}, 0, "1F1B", 1), one);
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 1, "ZBH1", 1), one);
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 1, "VPP", 2), one);
    const Result two = run(strategy({.mp = 2, .sharding = 2}, 2, "1F1B", 1));
    expect_bits_of(strategy({.mp = 2, .sharding = 2, .pp = 2}, 3, "ZBVPP", 2), two);
    const Case all = strategy({.mp = 2, .sharding = 2, .pp = 2, .dp = 2}, 1, "VPP", 2);
    expect_close_after_other_sums(run(all), run(on_one_rank(all)));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DataAxes, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

/// Holds what a rank has after every action but those that end a step against the plan. From the start of a
/// message to its wait, what it needs may be gone at any time: between them the plan is an upper bound.
class MemoryWitness final : public pipeline::Observer {
 public:
  MemoryWitness(const Trainer& trainer, int64_t before)
      : trainer_(trainer), plan_(trainer.plan()), before_(before) {
    const int64_t element_bytes = plan_.training.precision == config::Precision::kBfloat16 ? 2 : 4;
    microbatch_ = plan_.microbatch(trainer.coordinates().mp);
    message_bytes_ = microbatch_.own_tokens() * plan_.model.hidden * element_bytes;
    const RankPlan& mine = plan_.rank_at(trainer.coordinates());
    std::set<int> neighbours;
    for (const auto& [route, tally] : mine.messages.tallies) neighbours.insert(route.peer);
    const int64_t most_travelling = schedule::peak_handovers(plan_.step)[static_cast<size_t>(trainer.rank())];
    constant_ = mine.memory.weights + mine.memory.gradients + mine.memory.optimizer_states +
                mine.memory.buffers - most_travelling * message_bytes_ +
                tensor::kAllocationUnitBytes * std::ssize(neighbours);
    const RankLayout layout = lay_out_rank(plan_.layers_of_rank(trainer.rank()), plan_.layout(),
                                           element_bytes, layers::placement_of(microbatch_));
    segments_ = segment_bytes(plan_, trainer.rank(), layout, microbatch_);
  }

  void after(const Action& action, const pipeline::ActionTimes& /*times*/) override {
    const std::vector<Action>& list = plan_.step.ranks[static_cast<size_t>(trainer_.rank())];
    const size_t position = position_++;
    ASSERT_EQ(action, list[position]);
    if (class_of(action.op) == schedule::OpClass::kStepEnd) return;
    kept_ += schedule::memory_change(plan_.step, plan_.memory_bytes, trainer_.rank(), action);
    travelling_ += schedule::handover_change(plan_.step, trainer_.rank(), action);
    const bool is_embedding =
        action.chunk == 0 && plan_.first_rank() == trainer_.rank() && action.segment <= 0;
    if (is_embedding && action.op == Op::kForward) kept_ -= microbatch_.tokens() * 8;
    if (is_embedding && is_weight_gradient(action.op)) kept_ += microbatch_.tokens() * 8;
    count_in_flight(action.op);
    const int64_t expected = constant_ + kept_ + travelling_ * message_bytes_ + segments_[position];
    const std::string where =
        cat("after ", to_string(action), " at ", position, " of rank ", trainer_.rank());
    if (in_flight_ > 0) {
      ASSERT_LE(settled_bytes(expected), expected) << where;
    } else {
      ++exact_;
      ASSERT_EQ(settled_bytes(expected), expected) << where;
    }
  }

  int exact() const { return exact_; }

 private:
  void count_in_flight(Op op) {
    if (op == Op::kGather || op == Op::kReduce || op == Op::kReduceDp) ++in_flight_;
    if (op == Op::kWaitGather || op == Op::kWaitReduce || op == Op::kWaitReduceDp) --in_flight_;
  }

  /// What is allocated now. A collective's thread lets go of its tensors a moment after the wait for it has
  /// returned: until then there is more than `expected`.
  int64_t settled_bytes(int64_t expected) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (true) {
      const int64_t bytes = tensor::memory_stats().allocated_bytes - before_;
      if (bytes <= expected || std::chrono::steady_clock::now() > end) return bytes;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const Trainer& trainer_;
  const RunPlan& plan_;
  int64_t before_;
  cost::MicrobatchShape microbatch_;
  int64_t message_bytes_ = 0;
  int64_t constant_ = 0;
  std::vector<int64_t> segments_;
  size_t position_ = 0;
  int64_t kept_ = 0;
  int64_t travelling_ = 0;
  int in_flight_ = 0;
  int exact_ = 0;
};

std::vector<config::Strategy> many_strategies() {
  std::vector<config::Strategy> all;
  for (const mesh::MeshShape& mesh : {mesh::MeshShape{.sharding = 2},
                                      {.sharding = 2, .pp = 2},
                                      {.pp = 2, .dp = 2},
                                      {.sharding = 2, .pp = 2, .dp = 2},
                                      {.mp = 2, .pp = 2},
                                      {.mp = 2, .sharding = 2, .pp = 2}}) {
    for (const int32_t stage : {0, 1, 2, 3}) {
      if (mesh.sharding == 1 && stage > (mesh.mp > 1 ? 1 : 0)) continue;
      for (const ReduceTiming timing : {ReduceTiming::kStep, ReduceTiming::kMicrobatch}) {
        config::Strategy strategy = strategy_of(mesh, stage, timing);
        strategy.schedule_mode = std::array{"1F1B", "ZBH1", "ZBVPP"}[all.size() % 3];
        if (strategy.schedule_mode == "ZBVPP") strategy.chunks_per_rank = mesh.pp == 1 ? 1 : 2;
        if (mesh.pp == 1) strategy.schedule_mode = "1F1B";
        strategy.sequence_parallel = all.size() % 2 == 1;
        all.push_back(strategy);
      }
    }
  }
  return all;
}

TEST(DataAxesPlan, BytesAndMessagesAreThoseOfThePlan) {
  tensor::install_cpu_allocator();
  int number = 0;
  for (const config::Strategy& strategy : many_strategies()) {
    const Case c = {.strategy = strategy, .bf16 = ++number % 2 == 0, .tied = number % 3 == 0};
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto ranks = static_cast<int>(strategy.mesh.world_size());
    comm::run_ranks(ranks, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      at::set_num_threads(1);
      const tensor::ArenaScope memory_of_this_rank;
      const Trainer::Options options = options_of(c, world, store);
      std::vector<std::vector<pipeline::Microbatch>> steps;
      const int64_t data_ranks = int64_t{strategy.mesh.sharding} * strategy.mesh.dp;
      const mesh::Coordinates place = mesh::coordinates_of(strategy.mesh, world.rank);
      for (int64_t step = 1; step <= 2; ++step) {
        std::vector<pipeline::Microbatch>& mine = steps.emplace_back();
        for (int64_t i = 0; i < c.microbatches; ++i) {
          mine.push_back(microbatch(
              step, i * data_ranks + int64_t{strategy.mesh.sharding} * place.dp + place.sharding, false));
        }
      }
      const int64_t before = tensor::memory_stats().allocated_bytes;
      Trainer trainer(options);
      const RankPlan& planned = trainer.plan().rank_at(trainer.coordinates());
      for (const std::vector<pipeline::Microbatch>& mine : steps) {
        MemoryWitness witness(trainer, before);
        const comm::CollectiveTraffic world_before = trainer.world().traffic();
        std::map<mesh::Axis, comm::CollectiveTraffic> axes_before;
        for (const mesh::Axis axis : mesh::kAxes) axes_before[axis] = trainer.traffic(axis);
        trainer.observe(&witness);
        trainer.step(mine);
        trainer.observe(nullptr);
        EXPECT_GT(witness.exact(), 2 * c.microbatches);
        for (const mesh::Axis axis : mesh::kAxes) {
          const auto found = planned.collectives.find(axis);
          EXPECT_EQ(trainer.traffic(axis) - axes_before[axis],
                    found == planned.collectives.end() ? comm::CollectiveTraffic{} : found->second)
              << mesh::to_string(axis);
        }
        EXPECT_EQ(trainer.world().traffic() - world_before,
                  (comm::CollectiveTraffic{
                      {{comm::Collective::kAllGather, {1, (ranks - 1) * kStepExchangeNumel * 8}}}}))
            << "one all-gather is all that the ranks of all axes do together";
      }
      trainer.world().barrier().wait();
    });
  }
}

}  // namespace
}  // namespace braid::train
