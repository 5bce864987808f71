// A model of one's own: torch::nn modules on 1 and 2 ranks, and every way to use a trainer wrongly.
#include "braid/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/layers/autograd_layer.h"
#include "braid/tensor/memory.h"

namespace braid::train {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 4, kSequences = 2, kTokens = 3, kMicrobatches = 4;

/// Normal values; ranks are threads here, which share torch's own generator.
at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed));
}

layers::LayerSpec linear(const std::string& name, const std::string& weights, uint64_t seed) {
  return {.name = name, .kind = "linear", .make = [weights, seed](const layers::Placement&) {
            const auto module =
                std::make_shared<torch::nn::LinearImpl>(torch::nn::LinearOptions(kWidth, kWidth).bias(false));
            module->weight.set_data(normal({kWidth, kWidth}, seed) / 2);
            return layers::make_module_layer(module, weights + ".");
          }};
}

layers::LayerSpec loss(std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> function) {
  return {.name = "loss", .kind = "loss", .make = [function](const layers::Placement&) {
            return std::make_unique<layers::AutogradLossLayer>(function);
          }};
}

at::Tensor squared_error(const at::Tensor& x, const at::Tensor& y) { return (x - y).square().sum(); }

layers::ModelSpec three_layers() {
  return {.layers = {linear("a", "a", 1), linear("b", "b", 2), linear("c", "c", 3), loss(squared_error)},
          .hidden = kWidth};
}

Trainer::Options options_of(int pp, layers::ModelSpec model = three_layers()) {
  return {.strategy = {.mesh = {.pp = pp}, .schedule_mode = "ZBH1"},
          .training = {.microbatch_sequences = kSequences,
                       .sequence_tokens = kTokens,
                       .microbatches = kMicrobatches,
                       .evaluation_sequences = kSequences,
                       .learning_rate = {.peak = 0.02}},
          .model = std::move(model)};
}

std::vector<pipeline::Microbatch> microbatches_of(uint64_t step) {
  std::vector<pipeline::Microbatch> all;
  for (uint64_t i = 0; i < kMicrobatches; ++i) {
    const at::Tensor x = normal({kSequences, kTokens, kWidth}, 100 * step + i);
    all.push_back({.tokens = x, .labels = x.flip(-1)});
  }
  return all;
}

/// Runs `body` with a trainer on each of `pp` ranks; what each rank's exception said.
std::vector<std::optional<std::string>> run(const Trainer::Options& options,
                                            const std::function<void(Trainer&)>& body) {
  tensor::install_cpu_allocator();
  return comm::run_failing_ranks(
      options.strategy.mesh.pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Trainer::Options mine = options;
        mine.place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)};
        Trainer trainer(mine);
        body(trainer);
        trainer.world().barrier().wait();
      });
}

std::string first_failure(const std::vector<std::optional<std::string>>& messages) {
  for (const auto& message : messages) {
    if (message) return *message;
  }
  return "all is well";
}

TEST(Trainer, TrainsModulesToTheSameBitsOnAnyNumberOfRanks) {
  std::map<int, std::vector<double>> numbers;
  for (const int pp : {1, 2, 3}) {
    const auto messages = run(options_of(pp), [&](Trainer& trainer) {
      std::vector<double> mine;
      for (uint64_t step = 1; step <= 40; ++step) {
        const auto outcome = trainer.step(microbatches_of(step));
        mine.insert(mine.end(), {outcome->loss, outcome->grad_norm});
      }
      mine.push_back(trainer.evaluate(microbatches_of(41)).loss);
      if (trainer.rank() == 0) numbers[pp] = mine;
    });
    EXPECT_EQ(first_failure(messages), "all is well") << pp;
  }
  EXPECT_EQ(numbers[1].size(), 81u);
  EXPECT_LT(numbers[1].back(), numbers[1].front()) << "it learns";
  EXPECT_EQ(numbers[2], numbers[1]);
  EXPECT_EQ(numbers[3], numbers[1]);
}

TEST(Trainer, RecomputesModulesToTheSameBits) {
  std::map<bool, std::vector<double>> numbers;
  for (const bool recomputes : {false, true}) {
    layers::ModelSpec model = three_layers();
    for (size_t i = 0; i < 3; ++i) model.layers[i].block = i < 2 ? "first" : "second";
    model.layers[1].may_begin_stage = false;
    Trainer::Options options = options_of(2, model);
    if (recomputes) options.strategy.recompute = config::Recomputation::kFull;
    const auto messages = run(options, [&](Trainer& trainer) {
      EXPECT_EQ(trainer.plan().model.layers.front().name, recomputes ? "first" : "a");
      std::vector<double> mine;
      for (uint64_t step = 1; step <= 5; ++step) {
        const auto outcome = trainer.step(microbatches_of(step));
        mine.insert(mine.end(), {outcome->loss, outcome->grad_norm});
      }
      mine.push_back(trainer.evaluate(microbatches_of(6)).loss);
      if (trainer.rank() == 0) numbers[recomputes] = mine;
    });
    EXPECT_EQ(first_failure(messages), "all is well");
  }
  EXPECT_EQ(numbers[true].size(), 11u);
  EXPECT_EQ(numbers[true], numbers[false]);
}

TEST(Trainer, RejectsMicrobatchesOfAnotherNumberOrShapeAndCarriesOn) {
  const auto messages = run(options_of(1), [](Trainer& trainer) {
    const auto rejection = [&](const std::function<void(std::vector<pipeline::Microbatch>&)>& change) {
      std::vector<pipeline::Microbatch> all = microbatches_of(1);
      change(all);
      try {
        trainer.step(all);
      } catch (const ConfigError& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    EXPECT_THAT(rejection([](auto& all) { all.pop_back(); }),
                HasSubstr("a step takes 4 microbatches, got 3"));
    EXPECT_THAT(rejection([](auto& all) { all[2].tokens = at::Tensor(); }),
                HasSubstr("the tokens of a microbatch must be [2, 3, ...], got no tensor"));
    EXPECT_THAT(rejection([](auto& all) {
                  all[3].labels = at::zeros({kSequences, kTokens + 1, kWidth});
                }),
                HasSubstr("the labels of a microbatch must be [2, 3, ...], got [2, 4, 4]"));
    EXPECT_EQ(trainer.step(microbatches_of(1))->step, 1) << "nothing of it has begun a step";
  });
  EXPECT_EQ(first_failure(messages), "all is well");
}

TEST(Trainer, IsUnusableAfterAStepThatFailed) {
  layers::ModelSpec model = three_layers();
  int calls = 0;
  model.layers.back() = loss([&calls](const at::Tensor& x, const at::Tensor& y) {
    if (++calls == 2) throw std::runtime_error("out of paper");
    return squared_error(x, y);
  });
  const auto messages = run(options_of(1, model), [](Trainer& trainer) {
    EXPECT_THROW(trainer.step(microbatches_of(1)), std::runtime_error);
    trainer.step(microbatches_of(1));
  });
  EXPECT_THAT(first_failure(messages), HasSubstr("an earlier step or evaluation failed"));
}

TEST(Trainer, RejectsWhatItWasNotPreparedFor) {
  Trainer::Options options = options_of(1);
  options.training.evaluation_sequences = 0;
  EXPECT_THAT(first_failure(run(options, [](Trainer& trainer) { trainer.evaluate(microbatches_of(1)); })),
              HasSubstr("evaluation_sequences is 0"));
  options = options_of(1);
  options.training.max_steps = 0;
  EXPECT_THAT(first_failure(run(options, [](Trainer& trainer) { trainer.step(microbatches_of(1)); })),
              HasSubstr("max_steps is 0"));
  options = options_of(2);
  options.strategy.schedule_mode = "V-Half";
  options.strategy.chunks_per_rank = 2;
  options.model.layers.insert(options.model.layers.begin() + 3, linear("d", "d", 4));
  EXPECT_THAT(first_failure(run(options, [](Trainer&) {})), HasSubstr("depends on how long layers take"));
}

TEST(Trainer, RejectsOutputsThatAreNotWhatStagesHandOn) {
  layers::ModelSpec model = three_layers();
  const auto make_transposing = [](const layers::Placement&) {
    return std::make_unique<layers::AutogradLayer>(
        [](const at::Tensor& x) { return x.transpose(0, 1).contiguous(); }, std::vector<layers::NamedLeaf>{});
  };
  model.layers.insert(model.layers.begin() + 1, {.name = "t", .kind = "transpose", .make = make_transposing});
  model.layers[2].may_begin_stage = true;
  for (size_t i : {1, 3}) model.layers[i].may_begin_stage = false;
  const auto messages = run(options_of(2, model), [](Trainer& trainer) { trainer.step(microbatches_of(1)); });
  EXPECT_THAT(messages[0].value_or(""),
              HasSubstr("made [3, 2, 4] of float, but stages hand on [2, 3, 4] of float"));
}

TEST(Trainer, TiesTrainAlikeOnAnyNumberOfRanksAndMustBeginAlike) {
  const auto tied = [](uint64_t last_seed) {
    return layers::ModelSpec{.layers = {linear("a", "shared", 1), linear("b", "b", 2),
                                        linear("c", "shared", last_seed), loss(squared_error)},
                             .hidden = kWidth};
  };
  std::map<int, double> losses;
  for (const int pp : {1, 3}) {
    const auto messages = run(options_of(pp, tied(1)), [&](Trainer& trainer) {
      trainer.step(microbatches_of(1));
      const double second = trainer.step(microbatches_of(2))->loss;
      if (trainer.rank() == 0) losses[pp] = second;
    });
    EXPECT_EQ(first_failure(messages), "all is well") << pp;
  }
  EXPECT_EQ(losses[3], losses[1]);
  EXPECT_THAT(first_failure(run(options_of(3, tied(9)), [](Trainer&) {})),
              HasSubstr("the weight shared.weight, which two layers share, begins with different values"));
}

TEST(Trainer, RanksWithOtherOptionsAreFound) {
  tensor::install_cpu_allocator();
  const auto messages =
      comm::run_failing_ranks(2, [](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Trainer::Options options = options_of(2);
        options.training.adamw.beta1 = world.rank == 0 ? 0.9 : 0.8;
        options.place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)};
        Trainer trainer(options);
      });
  for (const auto& message : messages)
    EXPECT_THAT(message.value_or(""), HasSubstr("rank 1 has another plan than rank 0"));
}

}  // namespace
}  // namespace braid::train
