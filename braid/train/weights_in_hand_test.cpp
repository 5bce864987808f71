// Schedules whose actions run a W in hand behind exchanges of an mp group: the same bits, and what is kept in
// the middle of an action as planned.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/pipeline/executor.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/passes/lower.h"
#include "braid/tensor/memory.h"
#include "braid/train/recomputation.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

constexpr int64_t kSequences = 2, kTokens = 8;
constexpr int kSteps = 2;
const config::ModelConfig kModel = {.vocab_size = 64,
                                    .hidden_size = 32,
                                    .intermediate_size = 48,
                                    .num_hidden_layers = 8,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 2,
                                    .max_position_embeddings = kTokens};

struct Result {
  std::vector<double> losses, norms;
  std::map<std::string, at::Tensor> weights;  // by name and mp rank
  int64_t weights_in_hand = 0;
};

config::Strategy strategy_of(int32_t pp, const std::string& mode, int32_t chunks, bool sequence_parallel,
                             double exchange) {
  schedule::StageTimes times = {.forward = schedule::Seconds(2), .backward_input = schedule::Seconds(2)};
  times.forward_exchange = times.backward_exchange = schedule::Seconds(exchange);
  return {.mesh = {.mp = 2, .pp = pp},
          .sequence_parallel = sequence_parallel,
          .chunks_per_rank = chunks,
          .schedule_mode = mode,
          .durations = schedule::Durations{.stages = {times}}};
}

Result run(const config::Strategy& strategy, int64_t microbatches, bool bf16) {
  Result result;
  std::mutex mutex;
  const auto ranks = static_cast<int>(strategy.mesh.world_size());
  comm::run_ranks(ranks, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    Trainer trainer(
        {.strategy = strategy,
         .training = {.microbatch_sequences = kSequences,
                      .sequence_tokens = kTokens,
                      .microbatches = microbatches,
                      .max_steps = kSteps,
                      .precision = bf16 ? config::Precision::kBfloat16 : config::Precision::kFloat32,
                      .learning_rate = {.peak = 1e-2}},
         .model = model::llama_spec(kModel),
         .place = {.world = world, .store = store, .timeout = std::chrono::seconds(30)},
         .initialise = [](std::span<tensor::Parameter* const> all) { model::initialise(all, {.seed = 3}); }});
    Result mine;
    const auto note = [&](const std::optional<StepOutcome>& outcome) {
      if (!outcome) return;
      mine.losses.push_back(outcome->loss);
      mine.norms.push_back(outcome->grad_norm);
    };
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<pipeline::Microbatch> data;
      for (int64_t i = 0; i < microbatches; ++i) {
        auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * step + i));
        const at::Tensor text = at::randint(0, 64, {kSequences, kTokens + 1}, generator, at::kLong);
        data.push_back({.tokens = text.narrow(1, 0, kTokens).contiguous(),
                        .labels = text.narrow(1, 1, kTokens).contiguous()});
      }
      note(trainer.step(data));
    }
    note(trainer.finish());
    trainer.world().barrier().wait();
    const std::lock_guard lock(mutex);
    for (const tensor::Parameter* parameter : trainer.parameters()) {
      result.weights.emplace(cat(parameter->name, " of mp ", trainer.coordinates().mp),
                             parameter->value.clone());
    }
    result.losses = mine.losses;
    result.norms = mine.norms;
    result.weights_in_hand = schedule::count_weights_in_hand(trainer.plan().step);
  });
  return result;
}

void expect_same_bits(const Result& got, const Result& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.norms, expected.norms);
  ASSERT_EQ(got.weights.size(), expected.weights.size());
  for (const auto& [name, value] : expected.weights)
    EXPECT_TRUE(at::equal(got.weights.at(name), value)) << name;
}

bool suits(std::string_view mode, const schedule::PipelineShape& shape) {
  try {
    schedule::generate(mode, shape);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

struct Case {
  int32_t pp;
  int64_t microbatches;
  bool sequence_parallel;
  double exchange;  ///< of F and I that take 2, with W taking 1
  bool bf16 = false;
};

// A small exchange, behind which W's go where they cost nothing, and one longer than W, so that nearly all
// do.
TEST(WeightsInHand, EverySplitScheduleTrainsWithTheBitsOfOneThatHasNone) {
  tensor::install_cpu_allocator();
  int64_t in_hand = 0;
  for (const Case& c :
       {Case{.pp = 2, .microbatches = 3, .sequence_parallel = false, .exchange = 0.4},
        {.pp = 2, .microbatches = 4, .sequence_parallel = true, .exchange = 1.5, .bf16 = true},
        {.pp = 4, .microbatches = 8, .sequence_parallel = false, .exchange = 1.5},
        {.pp = 4, .microbatches = 8, .sequence_parallel = true, .exchange = 0.4}}) {
    const Result plain =
        run(strategy_of(1, "1F1B", 1, c.sequence_parallel, c.exchange), c.microbatches, c.bf16);
    EXPECT_EQ(plain.weights_in_hand, 0) << "a fused backward has its own W";
    for (const schedule::Mode& mode : schedule::modes()) {
      const int32_t chunks = mode.chunks.value_or(mode.name == "InterleavedZB" ? 2 : 1);
      if (!suits(mode.name, {c.pp, chunks, static_cast<int32_t>(c.microbatches)})) continue;
      SCOPED_TRACE(::testing::Message()
                   << mode.name << ", pp " << c.pp << ", " << c.microbatches << " microbatches, exchange "
                   << c.exchange << (c.sequence_parallel ? ", sequence parallel" : ""));
      const Result result =
          run(strategy_of(c.pp, std::string(mode.name), chunks, c.sequence_parallel, c.exchange),
              c.microbatches, c.bf16);
      expect_same_bits(result, plain);
      in_hand += result.weights_in_hand;
    }
  }
  EXPECT_GT(in_hand, 200);
}

// A decoder layer that is computed again is one layer to the chunk: behind its last exchange in F and in I
// runs W of another.
TEST(WeightsInHand, RecomputedLayersTrainWithTheSameBits) {
  tensor::install_cpu_allocator();
  for (const bool sequence_parallel : {false, true}) {
    const Result plain = run(strategy_of(1, "1F1B", 1, sequence_parallel, 1.5), 4, false);
    config::Strategy strategy =
        sequence_parallel ? strategy_of(2, "ZBVPP", 2, true, 1.5) : strategy_of(2, "ZBH1", 1, false, 1.5);
    for (const config::Recomputation recompute :
         {config::Recomputation::kCoreAttention, config::Recomputation::kFullAttention,
          config::Recomputation::kFull}) {
      SCOPED_TRACE(cat(strategy.schedule_mode, ", ", name_of(recompute)));
      strategy.recompute = recompute;
      strategy.early_weight_gradients = sequence_parallel == (recompute != config::Recomputation::kFull);
      const Result result = run(strategy, 4, false);
      expect_same_bits(result, plain);
      EXPECT_GT(result.weights_in_hand, 2);
    }
  }
}

/// Keeps as many bytes as it is told, and notes what its chunk keeps whenever one of its methods begins: in
/// the middle of an action, that is after the layer before it.
class ProbeLayer final : public layers::Layer {
 public:
  struct Kept final : layers::Saved {
    std::vector<const at::Tensor*> tensors() const override { return {&bytes}; }
    at::Tensor bytes;
  };
  ProbeLayer(schedule::StageMemory memory, const pipeline::Chunk** chunk, int64_t* most)
      : memory_(memory), chunk_(chunk), most_(most) {}

  std::unique_ptr<layers::Saved> make_saved() const override { return std::make_unique<Kept>(); }
  at::Tensor forward(const at::Tensor& x, layers::Saved* saved) override {
    note();
    static_cast<Kept&>(*saved).bytes = at::empty({memory_.forward_to_backward}, at::kByte);
    return x;
  }
  at::Tensor backward_input(const at::Tensor& dy, layers::Saved& saved) override {
    note();
    static_cast<Kept&>(saved).bytes = at::empty({memory_.backward_to_weight}, at::kByte);
    return dy;
  }
  void backward_weight(layers::Saved& saved) override { static_cast<Kept&>(saved).bytes.reset(); }
  void append_parameters(std::vector<tensor::Parameter*>& /*parameters*/) override {}

 private:
  void note() const { *most_ = std::max(*most_, (*chunk_)->saved_bytes()); }

  schedule::StageMemory memory_;
  const pipeline::Chunk** chunk_;
  int64_t* most_;
};

TEST(WeightInHandMemory, TheMiddleOfAnActionKeepsWhatIsPlanned) {
  const std::vector<std::vector<schedule::StageMemory>> models = {
      {{.forward_to_backward = 110, .backward_to_weight = 170},
       {.forward_to_backward = 10, .backward_to_weight = 10}},
      {{.forward_to_backward = 20, .backward_to_weight = 90},
       {.forward_to_backward = 30, .backward_to_weight = 40},
       {.forward_to_backward = 80, .backward_to_weight = 5}}};
  for (const char* list : {"F0 F1 I0 I1+W0 W1 F2 I2 W2", "F0 F1 I0 F2+W0 I1 W1 I2 W2",
                           "F0 I0 F1+W0 I1 F2+W1 I2 W2", "F0 F1 F2 I0 I1+W0 I2+W1 W2"}) {
    for (const std::vector<schedule::StageMemory>& model : models) {
      schedule::Schedule compute = {.name = list, .shape = {.microbatches = 3}};
      compute.ranks = {schedule::parse_actions(list)};
      schedule::StageMemory stage = {0, 0};
      for (const schedule::StageMemory& layer : model) {
        stage.forward_to_backward += layer.forward_to_backward;
        stage.backward_to_weight += layer.backward_to_weight;
      }
      const pipeline::Chunk* probed = nullptr;
      int64_t most = 0;
      std::vector<std::unique_ptr<layers::Layer>> layers;
      for (const schedule::StageMemory& layer : model)
        layers.push_back(std::make_unique<ProbeLayer>(layer, &probed, &most));
      pipeline::LayerChunk chunk(layers, {{0, std::ssize(layers)}});
      probed = &chunk;

      class AfterActions final : public pipeline::Observer {
       public:
        AfterActions(const pipeline::Chunk& chunk, int64_t& most) : chunk_(chunk), most_(most) {}
        void after(const schedule::Action& /*action*/, const pipeline::ActionTimes& /*times*/) override {
          most_ = std::max(most_, chunk_.saved_bytes());
        }

       private:
        const pipeline::Chunk& chunk_;
        int64_t& most_;
      } observer(chunk, most);

      pipeline::Executor executor({.schedule = schedule::lower(compute, {}), .rank = 0, .chunks = {&chunk}});
      executor.observe(&observer);
      const std::vector<pipeline::Microbatch> data(3, {.tokens = at::zeros({1, 1, 1}), .labels = {}});
      executor.run(
          {.microbatches = data},
          {.sequences = 1, .sequence_tokens = 1, .hidden = 1, .options = at::TensorOptions(at::kFloat)});
      EXPECT_EQ(schedule::peak_memory(compute, {.stages = {stage}, .layers = {model}}),
                std::vector<int64_t>{most})
          << list;
      EXPECT_EQ(chunk.saved_bytes(), 0);
    }
  }
}

}  // namespace
}  // namespace braid::train
