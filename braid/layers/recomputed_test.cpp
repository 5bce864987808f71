// Recomputed layers: the bits, and what is left in the records, of the same layers without recomputation.
#include "braid/layers/recomputed.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "braid/layers/attention.h"
#include "braid/layers/autograd_layer.h"
#include "braid/layers/mlp.h"
#include "braid/layers/testing.h"

namespace braid::layers {
namespace {

constexpr int64_t kHidden = 24, kTokens = 8;
constexpr size_t kMicrobatches = 2;

using Layers = std::vector<std::unique_ptr<Layer>>;

std::unique_ptr<Layer> attention(const Savings& savings) {
  return std::make_unique<Attention>(
      Attention::Options{.name = "block",
                         .hidden = kHidden,
                         .heads = 4,
                         .key_value_heads = 2,
                         .head_dim = 6,
                         .rope = kernels::rope_table({.max_positions = kTokens, .head_dim = 6}),
                         .savings = savings});
}

std::unique_ptr<Layer> mlp(const Savings& savings = {}) {
  return std::make_unique<Mlp>(
      Mlp::Options{.name = "block", .hidden = kHidden, .intermediate = 40, .savings = savings});
}

/// A function that autograd differentiates.
std::unique_ptr<Layer> squares(at::ScalarType dtype) {
  const at::Tensor scale = at::full({kHidden}, 0.5, dtype).requires_grad_(true);
  return std::make_unique<AutogradLayer>([scale](const at::Tensor& x) { return x * x * scale; },
                                         std::vector<NamedLeaf>{{"scale", scale}});
}

enum class Kind {
  kKept,
  kRecomputed,
  kRecomputedOneByOne,
  kCoreRecomputed,
  kEarlyGradients,
  kEarlyGradientsRecomputed
};

Layers make(Kind kind, at::ScalarType dtype) {
  const Savings savings = {
      .recomputes_core = kind == Kind::kCoreRecomputed,
      .early_gradients = kind == Kind::kEarlyGradients || kind == Kind::kEarlyGradientsRecomputed};
  Layers all;
  all.push_back(attention(savings));
  all.push_back(mlp(savings));
  all.push_back(squares(dtype));
  all.push_back(mlp(savings));
  if (kind == Kind::kRecomputedOneByOne) {
    for (std::unique_ptr<Layer>& layer : all) {
      Layers one;
      one.push_back(std::move(layer));
      layer = std::make_unique<Recomputed>(std::move(one));
    }
  }
  if (kind != Kind::kRecomputed && kind != Kind::kEarlyGradientsRecomputed) return all;
  Layers whole;
  whole.push_back(std::make_unique<Recomputed>(std::move(all)));
  return whole;
}

/// kWoven: F and B in two parts each, W of the microbatch before between those of B.
enum class Backward { kSplit, kFused, kWoven };

struct Result {
  std::vector<at::Tensor> ys, dxs, gradients;
};

Result train(Kind kind, at::ScalarType dtype, Backward backward) {
  const at::NoGradGuard no_grad;
  const Layers layers = make(kind, dtype);
  uint64_t seed = 0;
  for (const auto& layer : layers) testing::allocate(*layer, dtype);
  std::vector<tensor::Parameter*> parameters = parameters_of(layers);
  for (tensor::Parameter* parameter : parameters) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(++seed);
    parameter->value.copy_(at::normal(0.1, 0.2, parameter->value.sizes(), generator, at::kDouble));
  }
  Result result;
  std::vector<std::vector<std::unique_ptr<Saved>>> saved(kMicrobatches);
  for (size_t m = 0; m < kMicrobatches; ++m) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + m);
    const at::Tensor x = at::normal(0.0, 1.0, {2, kTokens, kHidden}, generator, at::kDouble).to(dtype);
    at::Tensor y = x, evaluated = x;
    for (const auto& layer : layers) {
      Saved& record = *saved[m].emplace_back(layer->make_saved());
      if (backward == Backward::kWoven) {
        layer->begin_forward(y, record);
        y = layer->end_forward(record);
      } else {
        y = layer->forward(y, &record);
      }
      evaluated = layer->forward(evaluated, nullptr);
    }
    EXPECT_TRUE(at::equal(evaluated, y));
    if (kind == Kind::kRecomputed) {
      EXPECT_EQ(saved[m].front()->bytes(), static_cast<int64_t>(x.nbytes())) << "F keeps its input alone";
    }
    result.ys.push_back(y);
  }
  for (size_t m = 0; m < kMicrobatches; ++m) {
    at::Tensor dy = result.ys[m] * 0.5;
    for (size_t i = layers.size(); i-- > 0;) {
      Saved& record = *saved[m][i];
      if (backward == Backward::kFused) {
        dy = layers[i]->backward(dy, record);
      } else if (backward == Backward::kSplit) {
        dy = layers[i]->backward_input(dy, record);
      } else {
        if (m > 0) layers[i]->begin_backward_weight(*saved[m - 1][i]);
        layers[i]->begin_backward_input(dy, record);
        if (m > 0) layers[i]->backward_weight(*saved[m - 1][i]);
        dy = layers[i]->end_backward_input(record);
      }
    }
    result.dxs.push_back(dy);
  }
  for (size_t m = 0; m < kMicrobatches; ++m) {
    for (size_t i = layers.size(); i-- > 0;) {
      const bool is_left =
          backward == Backward::kSplit || (backward == Backward::kWoven && m + 1 == kMicrobatches);
      if (is_left) layers[i]->backward_weight(*saved[m][i]);
      EXPECT_TRUE(saved[m][i]->empty()) << "W left something of microbatch " << m;
    }
  }
  for (const tensor::Parameter* parameter : parameters) result.gradients.push_back(parameter->main_grad);
  return result;
}

TEST(Recomputed, SameBitsAsWithout) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    const Result want = train(Kind::kKept, dtype, Backward::kSplit);
    for (const Kind kind : {Kind::kKept, Kind::kRecomputed, Kind::kRecomputedOneByOne, Kind::kCoreRecomputed,
                            Kind::kEarlyGradients, Kind::kEarlyGradientsRecomputed}) {
      for (const Backward backward : {Backward::kSplit, Backward::kFused, Backward::kWoven}) {
        SCOPED_TRACE(::testing::Message() << dtype << ", kind " << static_cast<int>(kind) << ", backward "
                                          << static_cast<int>(backward));
        const Result got = train(kind, dtype, backward);
        for (size_t m = 0; m < kMicrobatches; ++m) {
          EXPECT_TRUE(at::equal(got.ys[m], want.ys[m]));
          EXPECT_TRUE(at::equal(got.dxs[m], want.dxs[m]));
        }
        ASSERT_EQ(got.gradients.size(), want.gradients.size());
        for (size_t i = 0; i < want.gradients.size(); ++i) {
          EXPECT_GT(want.gradients[i].abs().max().item<double>(), 0) << i;
          EXPECT_TRUE(at::equal(got.gradients[i], want.gradients[i])) << i;
        }
      }
    }
  }
}

TEST(RecomputedSpec, StatesWhatItsPartsState) {
  const auto part = [](const std::string& name, double flops) {
    return LayerSpec{.name = "block." + name,
                     .kind = name,
                     .may_begin_stage = name == "a",
                     .block = "block",
                     .make = [](const Placement&) { return mlp(); },
                     .work =
                         [flops](const cost::MicrobatchShape&) {
                           return cost::LayerWork{
                               .forward_flops = flops, .output_flops = 10, .activation_elements = 30};
                         },
                     .saved_bytes =
                         [](const cost::MicrobatchShape&) {
                           return cost::SavedBytes{.forward_to_backward = 1000, .backward_to_weight = 7};
                         },
                     .messages = [](const cost::MicrobatchShape&) { return MpMessages(); }};
  };
  const cost::MicrobatchShape shape = {.sequences = 2, .sequence_tokens = 3, .element_bytes = 2};
  const LayerSpec spec = recomputed_spec({part("a", 100), part("b", 200)}, 8);
  EXPECT_EQ(spec.name, "block");
  EXPECT_EQ(spec.kind, "recomputed a + b");
  EXPECT_TRUE(spec.may_begin_stage);
  EXPECT_EQ(
      spec.work(shape),
      (cost::LayerWork{
          .forward_flops = 300, .output_flops = 10, .recomputed_flops = 290, .activation_elements = 80}));
  EXPECT_EQ(spec.saved_bytes(shape),
            (cost::SavedBytes{.forward_to_backward = 2 * 3 * 8 * 2, .backward_to_weight = 14}));
  EXPECT_EQ(recomputed_spec({part("a", 100)}, 8).name, "block.a");
  LayerSpec silent = part("b", 200);
  silent.saved_bytes = nullptr;
  silent.messages = nullptr;
  EXPECT_FALSE(recomputed_spec({part("a", 100), silent}, 8).saved_bytes) << "unknown memory stays unknown";
  EXPECT_FALSE(recomputed_spec({part("a", 100), silent}, 8).messages) << "and the group cannot cut it";
}

}  // namespace
}  // namespace braid::layers
