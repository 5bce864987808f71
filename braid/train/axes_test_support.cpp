#include "braid/train/axes_test_support.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>

#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/train/recomputation.h"

namespace braid::train::axes {

using config::ReduceTiming;

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

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << mesh::to_string(c.strategy.mesh) << ", " << c.strategy.schedule_mode << ", chunks "
             << c.strategy.chunks_per_rank << ", stage " << c.strategy.sharding_stage << ", "
             << "recomputation " << name_of(c.strategy.recompute) << ", "
             << (c.strategy.early_weight_gradients ? "early gradients, " : "")
             << (c.strategy.reduce_timing() == ReduceTiming::kStep ? "reduced once a step"
                                                                   : "each microbatch")
             << (c.bf16 ? ", bf16" : "") << (c.tied ? ", tied" : "");
}

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

void expect_close(const Result& got, const Result& expected, double norm_bound, double loss_bound) {
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_EQ(got.losses.front(), expected.losses.front());
  EXPECT_NEAR(got.norms.front(), expected.norms.front(), norm_bound * expected.norms.front());
  for (size_t i = 1; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], loss_bound * expected.losses[i]) << "step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, expected.evaluation, loss_bound * expected.evaluation);
}

Case on_one_rank(const Case& c) {
  Case one = c;
  one.strategy = {};
  one.microbatches = c.microbatches * c.strategy.mesh.sharding * c.strategy.mesh.dp;
  return one;
}

config::Strategy strategy_of(mesh::MeshShape mesh, int32_t stage, std::optional<ReduceTiming> timing) {
  return {.mesh = mesh,
          .sharding_stage = stage,
          .sharding_reduce = timing,
          .durations = schedule::Durations{},
          .segment_bytes = 8 * 1024};
}

}  // namespace braid::train::axes
