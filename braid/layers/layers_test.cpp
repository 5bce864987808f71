// Every layer's F, B and W against autograd on the plain formula.
//
// Bounds. Rounding of one operation is u = 2^-53 (float64), 2^-24 (float32) or 2^-8 (bfloat16; half its 8
// significant bits' spacing is 2^-9, taken twice). A value here passes through a chain of at most kChain
// roundings of tensors and through sums of at most kTerms terms, whose errors grow like their square root
// when they are independent; relative to the largest entry of a tensor the error is then about u * kChain *
// sqrt(kTerms) at worst. The tests use that product; sums in bfloat16 layers are taken in float32, so kTerms
// is 1 there.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "braid/base/error.h"
#include "braid/layers/attention.h"
#include "braid/layers/autograd_layer.h"
#include "braid/layers/embedding.h"
#include "braid/layers/head.h"
#include "braid/layers/linear.h"
#include "braid/layers/mlp.h"
#include "braid/layers/reference.h"
#include "braid/layers/rms_norm.h"
#include "braid/layers/testing.h"
#include "braid/tensor/memory.h"

namespace braid::layers {
namespace {

using testing::expect_like_autograd;
using testing::Order;

constexpr double kChain = 16;
constexpr double kTerms = 256;

double bound_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return 0x1p-53 * kChain * std::sqrt(kTerms);
    case at::kFloat:
      return 0x1p-24 * kChain * std::sqrt(kTerms);
    default:
      return 0x1p-8 * kChain / 2;  // half of the chain's tensors are rounded to bfloat16
  }
}

at::Tensor random_input(int64_t b, int64_t s, int64_t hidden, at::ScalarType dtype, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::normal(0.0, 1.0, {b, s, hidden}, generator, at::kDouble).to(dtype);
}

struct Case {
  at::ScalarType dtype;
  Order order;
};

class Layers : public ::testing::TestWithParam<Case> {
 protected:
  Layers() { tensor::install_cpu_allocator(); }
  at::ScalarType dtype() const { return GetParam().dtype; }
  void check(Layer& layer, const testing::Reference& reference, int64_t hidden, double deviation = 0.1) {
    testing::randomise(layer, dtype(), 1, deviation);
    expect_like_autograd(layer, reference,
                         {random_input(2, 5, hidden, dtype(), 1), random_input(1, 3, hidden, dtype(), 2),
                          random_input(2, 5, hidden, dtype(), 3)},
                         GetParam().order, bound_of(dtype()));
  }
};

TEST_P(Layers, Linear) {
  Linear layer({tensor::whole_tensor("w", {40, 24})});
  check(
      layer, [](const auto& x, const auto& w) { return at::matmul(x, w[0].t()); }, 24);
}

TEST_P(Layers, RmsNorm) {
  RmsNorm layer({.name = "w", .hidden = 40, .eps = 1e-5});
  check(
      layer, [](const auto& x, const auto& w) { return reference::rms_norm(x, w[0], 1e-5); }, 40);
}

TEST_P(Layers, AttentionWithEqualAndGroupedHeads) {
  for (const int64_t key_value_heads : {4, 2, 1}) {
    SCOPED_TRACE(key_value_heads);
    Attention layer({.name = "layer",
                     .hidden = 32,
                     .heads = 4,
                     .key_value_heads = key_value_heads,
                     .head_dim = 8,
                     .rope = kernels::rope_table({.max_positions = 16, .head_dim = 8})});
    const reference::AttentionShape shape = {.heads = 4, .key_value_heads = key_value_heads, .head_dim = 8};
    check(
        layer, [&](const auto& x, const auto& w) { return reference::attention(x, w, shape); }, 32);
  }
}

TEST_P(Layers, AttentionWhoseHeadsAreWiderThanTheModel) {
  Attention layer({.name = "layer",
                   .hidden = 24,
                   .heads = 3,
                   .key_value_heads = 3,
                   .head_dim = 16,
                   .rope = kernels::rope_table({.max_positions = 16, .head_dim = 16})});
  const reference::AttentionShape shape = {.heads = 3, .key_value_heads = 3, .head_dim = 16};
  check(
      layer, [&](const auto& x, const auto& w) { return reference::attention(x, w, shape); }, 24);
}

TEST_P(Layers, Mlp) {
  Mlp layer({.name = "layer", .hidden = 32, .intermediate = 88});
  check(
      layer, [](const auto& x, const auto& w) { return reference::mlp(x, w, 1e-6); }, 32);
}

TEST_P(Layers, Embedding) {
  Embedding layer({.vocabulary = 11, .hidden = 8});
  testing::randomise(layer, dtype(), 1, 1.0);
  const std::vector<at::Tensor> tokens = {at::tensor({3, 3, 10, 0, 7, 3}, at::kLong).view({2, 3}),
                                          at::tensor({5, 3, 5, 5, 1, 2}, at::kLong).view({2, 3})};
  expect_like_autograd(
      layer, [](const auto& x, const auto& w) { return at::embedding(w[0], x); }, tokens, GetParam().order,
      bound_of(dtype()));
}

TEST_P(Layers, AutogradAdapter) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto leaf = [&](at::IntArrayRef shape) {
    return at::normal(0.0, 0.3, shape, generator, at::kDouble).to(dtype()).requires_grad_(true);
  };
  const at::Tensor w1 = leaf({48, 16}), w2 = leaf({16, 48}), bias = leaf({16});
  AutogradLayer layer([=](const at::Tensor& x) { return at::linear(at::gelu(at::linear(x, w1)), w2, bias); },
                      {{"w1", w1}, {"w2", w2}, {"bias", bias}});
  testing::allocate(layer, dtype());
  expect_like_autograd(
      layer,
      [](const auto& x, const auto& w) { return at::linear(at::gelu(at::linear(x, w[0])), w[1], w[2]); },
      {random_input(2, 5, 16, dtype(), 1), random_input(2, 5, 16, dtype(), 2)}, GetParam().order,
      bound_of(dtype()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Layers,
                         ::testing::Values(Case{at::kDouble, Order::kOneByOne},
                                           Case{at::kDouble, Order::kAllForwardsFirst},
                                           Case{at::kFloat, Order::kAllForwardsFirst},
                                           Case{at::kBFloat16, Order::kAllForwardsFirst}));

class HeadLoss : public ::testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {};

// The head returns the loss and the gradient of scale times the loss, for any number of rows of logits at a
// time.
TEST_P(HeadLoss, AgainstAutogradForAnyChunkOfLogits) {
  const auto [dtype, logits_bytes] = GetParam();
  constexpr int64_t kHidden = 24, kVocabulary = 37;
  constexpr double kScale = 0.125;
  Head head({.hidden = kHidden, .vocabulary = kVocabulary, .logits_bytes = logits_bytes});
  testing::randomise(head, dtype, 3, 0.2);
  std::vector<tensor::Parameter*> parameters;
  head.append_parameters(parameters);
  std::vector<at::Tensor> weights;
  for (const auto* p : parameters) weights.push_back(p->value.to(at::kDouble).clone().requires_grad_(true));
  const double bound = bound_of(dtype);

  std::vector<at::Tensor> sums(2);
  for (uint64_t m = 0; m < 3; ++m) {
    const at::Tensor x = random_input(2, 5, kHidden, dtype, m);
    at::Tensor labels =
        (at::arange(10, at::kLong) * 7 + static_cast<int64_t>(m)).remainder(kVocabulary).view({2, 5});
    labels[1][2] = -100;
    const at::Tensor x_reference = x.to(at::kDouble).requires_grad_(true);
    at::Tensor expected;
    {
      const at::AutoGradMode record(true);
      expected = reference::loss_sum(x_reference, labels, weights, 1e-6);
    }
    const auto gradients = torch::autograd::grad({expected * kScale}, {weights[0], weights[1], x_reference});

    const at::NoGradGuard no_grad;
    HeadSaved saved;
    const Loss loss = head.loss(x, labels, kScale, &saved);
    EXPECT_EQ(loss.tokens, 9);
    EXPECT_NEAR(loss.sum, expected.item<double>(), bound * std::abs(expected.item<double>()));
    const Loss evaluated = head.loss(x, labels, kScale, nullptr);
    EXPECT_EQ(evaluated, loss);
    const at::Tensor dx = head.backward_input({}, saved);
    EXPECT_LE(testing::relative_error(dx, gradients[2]), bound);
    head.backward_weight(saved);
    EXPECT_TRUE(saved.empty());
    for (size_t i = 0; i < 2; ++i) sums[i] = m == 0 ? gradients[i].clone() : sums[i] + gradients[i];
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_LE(testing::relative_error(parameters[i]->main_grad, sums[i]), bound) << parameters[i]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, HeadLoss,
                         ::testing::Combine(::testing::Values(at::kDouble, at::kFloat, at::kBFloat16),
                                            ::testing::Values<int64_t>(1, 1000, 1 << 20)));

TEST(HeadMemory, LogitsAreNeverEntirelyInMemory) {
  tensor::install_cpu_allocator();
  const tensor::ArenaScope scope;
  const at::NoGradGuard no_grad;
  constexpr int64_t kHidden = 32, kVocabulary = 4096, kRows = 512, kLogitsBytes = 256 << 10;
  Head head({.hidden = kHidden, .vocabulary = kVocabulary, .logits_bytes = kLogitsBytes});
  testing::randomise(head, at::kFloat, 1, 0.1);
  const at::Tensor x = random_input(1, kRows, kHidden, at::kFloat, 1);
  const at::Tensor labels = at::arange(kRows, at::kLong).view({1, kRows});
  tensor::reset_peak_memory_stats();
  const int64_t before = tensor::memory_stats().allocated_bytes;
  HeadSaved saved;
  head.loss(x, labels, 1.0, &saved);
  const int64_t peak = tensor::memory_stats().max_allocated_bytes - before;
  // The norm's output and the gradient of it, 1 / rms, the chunk of logits, and small vectors of a row each.
  EXPECT_LE(peak, 2 * kRows * kHidden * 4 + kRows * 4 + kLogitsBytes + kRows * 64);
  EXPECT_LT(peak, kRows * kVocabulary * 4 / 8) << "all logits would take eight times as much";
}

TEST(Attention, ASequenceLongerThanThePositionsIsRejected) {
  Attention layer({.name = "layer",
                   .hidden = 16,
                   .heads = 2,
                   .key_value_heads = 2,
                   .head_dim = 8,
                   .rope = kernels::rope_table({.max_positions = 4, .head_dim = 8})});
  testing::randomise(layer, at::kFloat, 1, 0.1);
  try {
    layer.forward(random_input(1, 5, 16, at::kFloat, 1), nullptr);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(
        error.what(),
        "a sequence of 5 tokens is longer than the 4 positions of the model (max_position_embeddings)");
  }
}

// A loss through autograd gives the same as the head's own formulas.
TEST(AutogradLossLayer, AgainstAutogradOnTheFormula) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
  const at::Tensor weight = at::normal(0.0, 0.3, {11, 6}, generator, at::kDouble).requires_grad_(true);
  AutogradLossLayer layer(
      [=](const at::Tensor& x, const at::Tensor& labels) {
        return at::cross_entropy_loss(at::linear(x, weight).view({-1, 11}), labels.view(-1), {},
                                      at::Reduction::Sum, -100);
      },
      {{"w", weight}});
  const at::Tensor initial = weight.detach().clone().requires_grad_(true);
  testing::allocate(layer, at::kDouble);
  EXPECT_TRUE(at::equal(weight, initial)) << "the module's own values are kept";
  const at::Tensor x = random_input(2, 3, 6, at::kDouble, 1);
  at::Tensor labels = at::arange(6, at::kLong).view({2, 3});
  labels[0][1] = -100;
  const at::Tensor x_reference = x.clone().requires_grad_(true);
  const at::Tensor expected = at::cross_entropy_loss(at::linear(x_reference, initial).view({-1, 11}),
                                                     labels.view(-1), {}, at::Reduction::Sum, -100);
  const auto gradients = torch::autograd::grad({expected * 0.25}, {initial, x_reference});
  const at::NoGradGuard no_grad;
  const std::unique_ptr<Saved> saved = layer.make_saved();
  const Loss loss = layer.loss(x, labels, 0.25, saved.get());
  EXPECT_EQ(loss.tokens, 5);
  EXPECT_DOUBLE_EQ(loss.sum, expected.item<double>());
  EXPECT_EQ(layer.loss(x, labels, 0.25, nullptr), loss);
  EXPECT_LE(testing::relative_error(layer.backward_input({}, *saved), gradients[1]), bound_of(at::kDouble));
  layer.backward_weight(*saved);
  EXPECT_TRUE(saved->empty());
  EXPECT_LE(testing::relative_error(parameters_of(layer)[0]->main_grad, gradients[0]), bound_of(at::kDouble));
  EXPECT_THROW(layer.forward(x, nullptr), ConfigError);
}

TEST(AutogradLayer, RejectsATensorThatCannotHaveAGradient) {
  EXPECT_THROW(AutogradLayer([](const at::Tensor& x) { return x; }, {{"w", at::ones({2})}}), ShapeError);
}

}  // namespace
}  // namespace braid::layers
