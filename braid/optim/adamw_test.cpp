#include "braid/optim/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "braid/base/error.h"
#include "braid/optim/clipping.h"
#include "braid/tensor/memory.h"

namespace braid::optim {
namespace {

using config::AdamWOptions;

/// Allocated parameters with normal values.
struct Parameters {
  Parameters(std::vector<std::vector<int64_t>> sizes, at::ScalarType dtype, uint64_t seed,
             const tensor::SegmentHolding& holding = {}) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      all.push_back(
          tensor::declare_parameter({tensor::whole_tensor(std::to_string(i), std::move(sizes[i]))}));
    }
    std::vector<tensor::LayerParameters> layers = {{.layer = "", .parameters = {}}};
    for (tensor::Parameter& parameter : all) layers[0].parameters.push_back(&parameter);
    segments =
        tensor::allocate_segments(tensor::lay_out_segments(layers, {}, 4, holding.parts), dtype, holding);
    for (tensor::Parameter& parameter : all) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(seed++);
      parameter.value.copy_(at::normal(0.0, 1.0, parameter.sizes(), generator, at::kDouble));
    }
  }
  std::vector<tensor::Parameter> all;
  std::vector<tensor::Segment> segments;
};

AdamW adamw_over(const Parameters& parameters, const AdamWOptions& options = {}) {
  return AdamW(parameters.segments, make_memory_store(), options);
}

void set_gradient(tensor::Parameter& parameter, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  parameter.main_grad.copy_(at::normal(0.0, 1.0, parameter.value.sizes(), generator, at::kDouble));
  parameter.gradient_started = true;
}

// The update as in the paper (arXiv:1711.05101, algorithm 2), in float64.
struct PlainAdamW {
  at::Tensor w, m, v;
  void step(const at::Tensor& g, double lr, double decay, int64_t t, const AdamWOptions& o) {
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const at::Tensor m_hat = m / (1 - std::pow(o.beta1, t)), v_hat = v / (1 - std::pow(o.beta2, t));
    w = w - lr * decay * w - lr * m_hat / (v_hat.sqrt() + o.eps);
  }
};

TEST(AdamW, FollowsThePaperAndDoesNotDecayVectors) {
  const AdamWOptions options = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  Parameters parameters({{17, 9}, {33}}, at::kFloat, 1);
  tensor::Parameter &matrix = parameters.all[0], &vector = parameters.all[1];
  const auto zeros = [](const tensor::Parameter& p) { return at::zeros(p.value.sizes(), at::kDouble); };
  PlainAdamW plain_matrix = {matrix.value.to(at::kDouble).clone(), zeros(matrix), zeros(matrix)};
  PlainAdamW plain_vector = {vector.value.to(at::kDouble).clone(), zeros(vector), zeros(vector)};
  AdamW adamw = adamw_over(parameters, options);
  constexpr double kLr = 1e-2, kScale = 0.5;
  constexpr int64_t kSteps = 20;
  for (int64_t t = 1; t <= kSteps; ++t) {
    set_gradient(matrix, 10 + t);
    set_gradient(vector, 50 + t);
    plain_matrix.step(matrix.main_grad.to(at::kDouble) * kScale, kLr, options.weight_decay, t, options);
    plain_vector.step(vector.main_grad.to(at::kDouble) * kScale, kLr, 0.0, t, options);
    adamw.step(kLr, kScale);
  }
  EXPECT_EQ(adamw.steps(), kSteps);
  // Each step rounds the weight (of magnitude at most 4) a few times: kSteps * 4 roundings of 4 * 2^-24; the
  // update itself, at most about 3 lr per step, carries the relative error of its own ten roundings, which is
  // smaller.
  const double bound = kSteps * 4 * 4 * 0x1p-24;
  EXPECT_LT((matrix.value.to(at::kDouble) - plain_matrix.w).abs().max().item<double>(), bound);
  EXPECT_LT((vector.value.to(at::kDouble) - plain_vector.w).abs().max().item<double>(), bound);
}

// In bfloat16, updates far below the rounding step of the weights still accumulate, in the master weights.
TEST(AdamW, SmallUpdatesOfBfloat16WeightsAddUp) {
  Parameters parameters({{4, 4}}, at::kBFloat16, 1);
  tensor::Parameter& weight = parameters.all[0];
  weight.value.fill_(1.0);
  AdamW adamw = adamw_over(parameters);
  for (int i = 0; i < 100; ++i) {
    weight.main_grad.fill_(1.0);
    weight.gradient_started = true;
    adamw.step(1e-4, 1.0);
  }
  EXPECT_NEAR(weight.value[0][0].item<float>(), 0.99f, 0.004f);
}

TEST(AdamW, UpdatesWithoutTemporaries) {
  tensor::install_cpu_allocator();
  const tensor::ArenaScope scope;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Parameters parameters({{1024, 1024}}, dtype, 3);
    AdamW adamw = adamw_over(parameters);
    set_gradient(parameters.all[0], 4);
    tensor::reset_peak_memory_stats();
    const int64_t before = tensor::memory_stats().allocated_bytes;
    adamw.step(1e-3, 1.0);
    EXPECT_LE(tensor::memory_stats().max_allocated_bytes - before, 1 << 20);
  }
}

// However parameters are laid out in segments, each is updated as if it were alone, bit for bit; padding
// stays 0.
TEST(AdamW, SegmentsDoNotAffectTheNumbers) {
  const std::vector<std::vector<int64_t>> sizes = {{5, 7}, {33}, {2, 3}, {1}, {64}, {31, 31}};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    Parameters together(sizes, dtype, 7);
    AdamW adamw = adamw_over(together, {.weight_decay = 0.1});
    for (int step = 0; step < 3; ++step) {
      for (size_t i = 0; i < sizes.size(); ++i)
        set_gradient(together.all[i], 100 * i + static_cast<uint64_t>(step));
      adamw.step(1e-2, 0.7);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      Parameters alone({sizes[i]}, dtype, 7 + i);
      AdamW adamw_alone = adamw_over(alone, {.weight_decay = 0.1});
      for (int step = 0; step < 3; ++step) {
        set_gradient(alone.all[0], 100 * i + static_cast<uint64_t>(step));
        adamw_alone.step(1e-2, 0.7);
      }
      EXPECT_TRUE(at::equal(together.all[i].value, alone.all[0].value)) << "parameter " << i;
    }
    const tensor::SegmentLayout& layout = together.segments[0].layout;
    const int64_t end = layout.offsets[0] + layout.members[0]->numel();
    EXPECT_EQ(together.segments[0].values.narrow(0, end, layout.offsets[1] - end).abs().sum().item<double>(),
              0);
  }
}

TEST(AdamW, AMissingGradientIsAnError) {
  Parameters parameters({{4, 4}}, at::kFloat, 3);
  AdamW adamw = adamw_over(parameters);
  EXPECT_THROW(adamw.step(1e-3, 1.0), InternalError);
}

// Each rank updates its part: together the same as one that has everything, bit for bit.
TEST(AdamW, PartsAreUpdatedLikeTheWhole) {
  const std::vector<std::vector<int64_t>> sizes = {{5, 7}, {33}, {300, 3}, {1}, {64}, {31, 31}};
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Parameters whole(sizes, dtype, 7);
    AdamW adamw = adamw_over(whole, {.weight_decay = 0.1});
    for (size_t i = 0; i < sizes.size(); ++i) set_gradient(whole.all[i], 100 + i);
    adamw.step(1e-2, 0.7);
    for (const int64_t parts : {2, 3, 4}) {
      const int64_t numel = Parameters(sizes, dtype, 7, {.parts = parts}).segments[0].layout.numel;
      at::Tensor together = at::empty({numel}, dtype);
      ExactSum squares;
      for (int64_t part = 0; part < parts; ++part) {
        Parameters mine(sizes, dtype, 7, {.parts = parts, .part = part});
        AdamW one = adamw_over(mine, {.weight_decay = 0.1});
        for (size_t i = 0; i < sizes.size(); ++i) set_gradient(mine.all[i], 100 + i);
        add_squares(
            mine.segments[0], [](const auto&) { return true; }, squares);
        one.step(1e-2, 0.7);
        const tensor::Range& own = mine.segments[0].own;
        together.narrow(0, own.begin, own.size()).copy_(mine.segments[0].own_values);
      }
      const at::Tensor& expected = whole.segments[0].values;
      EXPECT_TRUE(at::equal(together.narrow(0, 0, expected.numel()), expected));
      ExactSum expected_squares;
      add_squares(
          whole.segments[0], [](const auto&) { return true; }, expected_squares);
      EXPECT_EQ(squares.value(), expected_squares.value());
    }
  }
}

TEST(Clipping, SquaresAreOfTheMembersThatCount) {
  Parameters parameters({{3, 4}, {5}, {300}}, at::kBFloat16, 1);
  for (size_t i = 0; i < 3; ++i) set_gradient(parameters.all[i], 5 + i);
  ExactSum sum;
  add_squares(
      parameters.segments[0], [&](const tensor::Parameter& p) { return &p != &parameters.all[1]; }, sum);
  const double expected = parameters.all[0].main_grad.to(at::kDouble).pow(2).sum().item<double>() +
                          parameters.all[2].main_grad.to(at::kDouble).pow(2).sum().item<double>();
  EXPECT_NEAR(sum.value(), expected, 1e-12 * expected);
}

TEST(Clipping, CoefficientLimitsTheNormAndZeroTurnsItOff) {
  EXPECT_EQ(clip_coefficient(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_coefficient(4.0, 1.0) * 4.0, 1.0, 1e-6);
  EXPECT_EQ(clip_coefficient(4.0, 0.0), 1.0);
}

}  // namespace
}  // namespace braid::optim
