// A small Llama on the ranks of an mp group: the numbers of one rank, and the bytes and messages of the
// formulas.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "braid/comm/testing.h"
#include "braid/config/presets.h"
#include "braid/layers/mp_testing.h"
#include "braid/layers/recomputed.h"
#include "braid/layers/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/model/llama_cost.h"

namespace braid::model {
namespace {

using comm::Collective;
using layers::Layer;
using layers::Loss;
using layers::MpMessages;
using layers::Placement;
using layers::Saved;

constexpr int64_t kVocabulary = 37;

config::ModelConfig small_llama() {
  return {.vocab_size = kVocabulary,
          .hidden_size = 18,
          .intermediate_size = 40,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 6,
          .max_position_embeddings = 16};
}

struct Case {
  int32_t mp;
  bool sequence_parallel;
  int64_t sequences;
  int64_t sequence_tokens;
  at::ScalarType dtype = at::kDouble;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "mp " << c.mp << (c.sequence_parallel ? ", sequence parallel, " : ", ") << c.sequences
             << " x " << c.sequence_tokens << ", " << c.dtype;
}

cost::MicrobatchShape shape_of(const Case& c, int32_t mp_index) {
  const auto element = static_cast<int64_t>(c10::elementSize(c.dtype));
  return {.sequences = c.sequences,
          .sequence_tokens = c.sequence_tokens,
          .element_bytes = element,
          .wide_element_bytes = element == 8 ? 8 : 4,
          .mp_index = mp_index,
          .mp_degree = c.mp,
          .sequence_parallel = c.sequence_parallel};
}

enum class Recompute { kNothing, kCores, kAttentions, kDecoderLayers };
enum class Gradients { kInWeight, kEarly };

/// The small Llama's layers, of which some recompute.
std::vector<layers::LayerSpec> specs_of(Recompute recompute, Gradients gradients = Gradients::kInWeight) {
  const layers::ModelSpec model = llama_spec(small_llama());
  std::vector<layers::LayerSpec> specs;
  for (const layers::LayerSpec& of_model : model.layers) {
    const bool is_early = gradients == Gradients::kEarly && of_model.saving;
    const layers::LayerSpec spec = is_early ? of_model.saving({.early_gradients = true}) : of_model;
    specs.push_back(spec);
    if (recompute == Recompute::kDecoderLayers && of_model.kind == "mlp") {
      const layers::LayerSpec attention = specs[specs.size() - 2];
      specs.resize(specs.size() - 2);
      specs.push_back(layers::recomputed_spec({attention, spec}, model.hidden));
    }
    if (!spec.is_attention) continue;
    if (recompute == Recompute::kCores) specs.back() = spec.saving({.recomputes_core = true});
    if (recompute == Recompute::kAttentions) specs.back() = layers::recomputed_spec({spec}, model.hidden);
  }
  return specs;
}

/// A model with its initial weights.
struct Model {
  std::vector<layers::LayerSpec> specs;
  std::vector<std::unique_ptr<Layer>> layers;

  Model(const Placement& place, at::ScalarType dtype, Recompute recompute = Recompute::kNothing,
        Gradients gradients = Gradients::kInWeight)
      : specs(specs_of(recompute, gradients)) {
    for (const layers::LayerSpec& spec : specs) layers.push_back(layers::make_layer(spec, place));
    const std::vector<tensor::LayerParameters> by_layer = layers::parameters_by_layer(layers, specs);
    tensor::allocate_segments(tensor::lay_out_segments(by_layer, {}, 4), dtype);
    initialise(layers::parameters_of(layers), {.deviation = 0.1, .seed = 5});
  }
};

struct Result {
  Loss loss;
  std::vector<tensor::Parameter> parameters;
};

at::Tensor tokens_of(const Case& c) {
  return (at::arange(c.sequences * c.sequence_tokens, at::kLong) * 11)
      .remainder(kVocabulary)
      .view({c.sequences, c.sequence_tokens});
}

at::Tensor labels_of(const Case& c) {
  at::Tensor labels = tokens_of(c).add(5).remainder(kVocabulary);
  labels[0][1] = -100;
  return labels;
}

/// Called after each of a layer's methods.
using Observer = std::function<void(size_t layer, const std::string& method, const Saved& saved)>;

enum class Backward { kSplit, kFused };

Result train(Model& model, const Case& c, Backward backward, const Observer& after = {}) {
  const at::NoGradGuard no_grad;
  const size_t n = model.layers.size();
  std::vector<std::unique_ptr<Saved>> saved;
  Result result;
  at::Tensor x = tokens_of(c);
  const auto observe = [&](size_t i, const char* method) {
    if (after) after(i, method, *saved[i]);
  };
  for (size_t i = 0; i < n; ++i) {
    saved.push_back(model.layers[i]->make_saved());
    if (layers::LossLayer* loss = model.layers[i]->as_loss_layer()) {
      result.loss = loss->loss(x, labels_of(c), 0.01, saved[i].get());
    } else {
      x = model.layers[i]->forward(x, saved[i].get());
    }
    observe(i, "F");
  }
  at::Tensor dy;
  for (size_t i = n; i-- > 0;) {
    if (backward == Backward::kFused) {
      dy = model.layers[i]->backward(dy, *saved[i]);
      observe(i, "BW");
    } else {
      dy = model.layers[i]->backward_input(dy, *saved[i]);
      observe(i, "B");
    }
  }
  if (backward == Backward::kSplit) {
    for (size_t i = n; i-- > 0;) {
      model.layers[i]->backward_weight(*saved[i]);
      observe(i, "W");
    }
  }
  for (size_t i = 0; i < n; ++i) {
    EXPECT_TRUE(saved[i]->empty()) << model.specs[i].name << " has something left after W";
    for (tensor::Parameter& parameter : layers::testing::snapshot(*model.layers[i]))
      result.parameters.push_back(std::move(parameter));
  }
  return result;
}

/// The whole tensors of which the ranks hold parts, from their values.
layers::testing::Whole whole_values(const std::vector<std::vector<tensor::Parameter>>& of_ranks) {
  std::vector<std::vector<tensor::Parameter>> values = of_ranks;
  for (auto& rank : values) {
    for (tensor::Parameter& parameter : rank) {
      parameter.main_grad = parameter.value;
      parameter.partial_over = 1;  // copies hold the same
    }
  }
  return layers::testing::whole_gradients(values);
}

class TensorParallelLlama : public ::testing::TestWithParam<Case> {};

TEST_P(TensorParallelLlama, NumbersOfOneRankBytesAndMessagesOfTheFormulas) {
  const Case c = GetParam();
  std::vector<Result> of_ranks(static_cast<size_t>(c.mp));
  comm::run_ranks(c.mp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    comm::Communicator mp(store, comm::group_of_all(world, "mp"), {.timeout = std::chrono::seconds(60)});
    const Placement place = {
        .mp_index = world.rank, .mp_degree = c.mp, .sequence_parallel = c.sequence_parallel, .mp = &mp};
    const cost::MicrobatchShape shape = shape_of(c, world.rank);
    comm::CollectiveTraffic before;
    std::vector<layers::LayerSpec> specs;
    const Observer check = [&](size_t i, const std::string& method, const Saved& saved) {
      const layers::LayerSpec& spec = specs[i];
      SCOPED_TRACE(::testing::Message() << spec.name << " after " << method << " on rank " << world.rank);
      comm::CollectiveTraffic traffic = mp.traffic() - before;
      before = mp.traffic();
      if (c.mp == 1) traffic = {};  // a group of one counts its calls, of no bytes
      const MpMessages want = spec.messages(shape);
      const cost::SavedBytes bytes = spec.saved_bytes(shape);
      if (method == "F") {
        EXPECT_EQ(traffic, want.forward);
        EXPECT_EQ(saved.bytes(), bytes.forward_to_backward);
      } else if (method == "B") {
        EXPECT_EQ(traffic, want.backward_input);
        EXPECT_EQ(saved.bytes(), bytes.backward_to_weight);
      } else {
        EXPECT_EQ(traffic, method == "W" ? want.backward_weight : want.backward);
        EXPECT_EQ(saved.bytes(), 0);
      }
    };
    Result& first = of_ranks[static_cast<size_t>(world.rank)];
    for (const Recompute recompute :
         {Recompute::kNothing, Recompute::kCores, Recompute::kAttentions, Recompute::kDecoderLayers}) {
      for (const auto& [backward, gradients] : {std::pair(Backward::kSplit, Gradients::kInWeight),
                                                {Backward::kFused, Gradients::kInWeight},
                                                {Backward::kSplit, Gradients::kEarly},
                                                {Backward::kFused, Gradients::kEarly}}) {
        SCOPED_TRACE(::testing::Message() << "recomputation " << static_cast<int>(recompute)
                                          << (backward == Backward::kSplit ? ", split" : ", fused")
                                          << (gradients == Gradients::kEarly ? ", early" : ""));
        Model model(place, c.dtype, recompute, gradients);
        specs = model.specs;
        const Result result = train(model, c, backward, check);
        if (first.parameters.empty()) first = result;
        EXPECT_EQ(result.loss, first.loss);
        ASSERT_EQ(result.parameters.size(), first.parameters.size());
        for (size_t i = 0; i < first.parameters.size(); ++i) {
          EXPECT_TRUE(at::equal(result.parameters[i].main_grad, first.parameters[i].main_grad))
              << first.parameters[i].name;
        }
      }
    }
  });

  // In float64; as in layers/tensor_parallel_test.cpp, through six layers one after another: two halves of
  // two decoder layers between embedding and head.
  constexpr double kBound = 2 * 0x1p-53 * 6 * 20 * 16;
  static_assert(kBound < 1e-12);
  Model whole({}, c.dtype);
  const Result want = train(whole, c, Backward::kSplit);
  std::vector<std::vector<tensor::Parameter>> parameters;
  for (const Result& result : of_ranks) {
    EXPECT_EQ(result.loss, of_ranks[0].loss) << "ranks have different loss bits";
    parameters.push_back(result.parameters);
  }
  const layers::testing::Whole values = whole_values(parameters);
  for (const auto& [name, value] : whole_values({want.parameters})) {
    ASSERT_TRUE(values.contains(name)) << name;
    EXPECT_TRUE(at::equal(values.at(name), value)) << name << " begins with other values";
  }
  EXPECT_EQ(of_ranks[0].loss.tokens, want.loss.tokens);
  const layers::testing::Whole gradients = layers::testing::whole_gradients(parameters);
  EXPECT_EQ(gradients.size(), values.size());
  if (c.dtype != at::kDouble) return;
  EXPECT_NEAR(of_ranks[0].loss.sum, want.loss.sum, kBound * want.loss.sum);
  for (const auto& [name, gradient] : layers::testing::whole_gradients({want.parameters})) {
    EXPECT_LE(layers::testing::relative_error(gradients.at(name), gradient), kBound) << name;
  }
}

// Rows and columns whose product the group does not divide, too: 5 x 18 elements over 4 ranks.
INSTANTIATE_TEST_SUITE_P(Groups, TensorParallelLlama,
                         ::testing::Values(Case{1, false, 3, 8}, Case{2, false, 1, 5}, Case{2, false, 3, 8},
                                           Case{2, true, 3, 8}, Case{4, false, 1, 5}, Case{4, false, 3, 8},
                                           Case{4, true, 1, 8}, Case{4, true, 3, 8},
                                           Case{2, true, 3, 8, at::kBFloat16},
                                           Case{4, false, 1, 8, at::kFloat}));

TEST(LlamaPerRank, WorkAndParametersOfAGroupAreTheWholeModels) {
  for (const char* name : {"llama-tiny", "llama-3-8b", "llama-3.2-1b"}) {
    const config::ModelConfig config = config::find_preset(name).value();
    const layers::ModelSpec model = llama_spec(config);
    const int64_t tied = config.tie_word_embeddings ? config.vocab_size * config.hidden_size : 0;
    for (const int32_t mp : {1, 2, 4}) {
      SCOPED_TRACE(::testing::Message() << name << ", mp " << mp);
      int64_t parameters = 0;
      for (const layers::LayerSpec& spec : model.layers) {
        const cost::LayerWork whole = spec.work({.sequence_tokens = 64});
        double flops = 0;
        for (int32_t rank = 0; rank < mp; ++rank) {
          const cost::MicrobatchShape shape = {
              .sequence_tokens = 64, .mp_index = rank, .mp_degree = mp, .sequence_parallel = mp > 1};
          flops += spec.work(shape).forward_flops;
          EXPECT_LE(spec.work(shape).activation_elements, whole.activation_elements);
          const auto layer = layers::make_without_data(spec, layers::placement_of(shape));
          for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) {
            if (rank % parameter->copies == 0) parameters += parameter->numel();
          }
        }
        // All are whole numbers below 2^53, so exact. A shared key-value head is computed by each of its
        // ranks.
        const int64_t copies = std::max<int64_t>(1, mp / config.num_key_value_heads);
        const int64_t repeated = (copies - 1) * config.num_key_value_heads * config.head_dim;
        const double again =
            spec.kind == "attention" ? 4.0 * static_cast<double>(config.hidden_size * repeated) : 0.0;
        EXPECT_EQ(flops, whole.forward_flops + again) << spec.name;
      }
      EXPECT_EQ(parameters - tied, llama_parameters(config));
    }
  }
}

TEST(LlamaMessages, TheHeadExchangesStatisticsBlockByBlock) {
  // 2^20 / 2 logits in float32 are 2 MiB a row; two blocks of 16 rows make up the head's 64 MiB.
  const config::ModelConfig config = {.vocab_size = 1 << 20, .hidden_size = 64};
  const cost::MicrobatchShape shape = {.sequences = 1, .sequence_tokens = 40, .mp_degree = 2};
  const MpMessages messages = head_messages(config, shape);
  const comm::CollectiveTraffic want = {
      {{Collective::kAllReduceSum, {1, 40 * 64 * 4}}, {Collective::kAllGather, {3, 3 * 40 * 4}}}};
  EXPECT_EQ(messages.forward, want);
  EXPECT_EQ(messages.backward_input, comm::CollectiveTraffic());
  EXPECT_EQ(messages.backward_weight, comm::CollectiveTraffic());
}

TEST(LlamaMessages, ADecoderLayerComputedAgainRepeatsTheSumWithin) {
  const cost::MicrobatchShape shape = {.sequences = 1, .sequence_tokens = 8, .mp_degree = 2};
  const auto sums_of = [&](Recompute recompute) {
    int64_t sum = 0;
    for (const layers::LayerSpec& spec : specs_of(recompute)) {
      const MpMessages messages = spec.messages(shape);
      EXPECT_EQ(messages.backward_weight, comm::CollectiveTraffic());
      for (const auto& [kind, tally] : messages.backward_input.tallies) sum += tally.count;
    }
    return sum;
  };
  const int64_t layers = small_llama().num_hidden_layers;
  EXPECT_EQ(sums_of(Recompute::kNothing), 2 * layers) << "of the gradients of the two halves' inputs";
  EXPECT_EQ(sums_of(Recompute::kCores), 2 * layers);
  EXPECT_EQ(sums_of(Recompute::kAttentions), 2 * layers);
  EXPECT_EQ(sums_of(Recompute::kDecoderLayers), 3 * layers) << "and between the halves";
}

TEST(LlamaMessages, SequenceParallelismMovesTheBytesOfAllReduces) {
  // An all-reduce is a reduce-scatter and an all-gather: F and B of a layer's half move the same bytes.
  const config::ModelConfig config = {.hidden_size = 64, .num_attention_heads = 4};
  cost::MicrobatchShape shape = {.sequences = 2, .sequence_tokens = 16, .mp_degree = 4};
  const auto bytes = [](const comm::CollectiveTraffic& traffic) {
    int64_t sum = 0;
    for (const auto& [kind, tally] : traffic.tallies) sum += tally.bytes;
    return sum;
  };
  const MpMessages reduced = mlp_messages(config, shape);
  shape.sequence_parallel = true;
  const MpMessages scattered = mlp_messages(config, shape);
  EXPECT_EQ(bytes(scattered.forward), bytes(reduced.forward));
  EXPECT_EQ(bytes(scattered.backward_input), bytes(reduced.backward_input));
  EXPECT_EQ(bytes(scattered.backward), bytes(reduced.backward) * 3 / 2) << "and gathers the norm's output";
  EXPECT_EQ(mlp_messages(config, {.sequences = 2, .sequence_tokens = 16}), MpMessages());
}

}  // namespace
}  // namespace braid::model
