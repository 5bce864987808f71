#include "braid/kernels/rope.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(RopeTable, AngleIsPositionTimesFrequency) {
  const RopeTable table = rope_table({.max_positions = 50, .head_dim = 8, .theta = 500.0});
  ASSERT_EQ(table.cos_Sd.sizes(), (at::IntArrayRef{50, 4}));
  for (const int64_t position : {0, 1, 49}) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(position) / std::pow(500.0, static_cast<double>(i) / 4);
      EXPECT_FLOAT_EQ(table.cos_Sd[position][i].item<float>(), static_cast<float>(std::cos(angle)));
      EXPECT_FLOAT_EQ(table.sin_Sd[position][i].item<float>(), static_cast<float>(std::sin(angle)));
    }
  }
}

TEST(RopeTable, LinearScalingStretchesEveryWavelength) {
  const RopeTable plain = rope_table({.max_positions = 10, .head_dim = 4});
  const RopeTable scaled = rope_table(
      {.max_positions = 40, .head_dim = 4, .scaling = {.type = RopeScaling::Type::kLinear, .factor = 4}});
  for (int64_t position = 0; position < 10; ++position) {
    EXPECT_TRUE(at::allclose(scaled.sin_Sd[4 * position], plain.sin_Sd[position], 1e-6, 1e-7));
  }
}

TEST(RopeTable, Llama3ScalingKeepsShortWavelengthsAndStretchesLongOnes) {
  const RopeScaling scaling = {.type = RopeScaling::Type::kLlama3,
                               .factor = 8,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4,
                               .original_max_positions = 64};
  const RopeTable table =
      rope_table({.max_positions = 2, .head_dim = 6, .theta = 1000.0, .scaling = scaling});
  // Frequencies 1, 0.1 and 0.01 make 10.2, 1.02 and 0.1 rotations in 64 positions: kept, blended, stretched.
  const double turns = 64 * 0.1 / (2 * std::numbers::pi);
  const double kept = (turns - 1) / 3;
  const double blended = (1 - kept) * 0.1 / 8 + kept * 0.1;
  EXPECT_FLOAT_EQ(table.sin_Sd[1][0].item<float>(), static_cast<float>(std::sin(1.0)));
  EXPECT_FLOAT_EQ(table.sin_Sd[1][1].item<float>(), static_cast<float>(std::sin(blended)));
  EXPECT_FLOAT_EQ(table.sin_Sd[1][2].item<float>(), static_cast<float>(std::sin(0.01 / 8)));
}

struct Case {
  int64_t batch, seq, query_heads, key_value_heads, head_dim;
};

class Rope : public testing::TestWithParam<std::tuple<at::ScalarType, Case>> {
 protected:
  at::ScalarType dtype_ = std::get<0>(GetParam());
  Case case_ = std::get<1>(GetParam());
  RopeShape shape_ = {
      .seq = case_.seq, .query_heads = case_.query_heads, .key_value_heads = case_.key_value_heads};
  RopeTable table_ = rope_table({.max_positions = case_.seq + 3, .head_dim = case_.head_dim});
  int64_t turned_ = case_.query_heads + case_.key_value_heads;
  int64_t heads_ = turned_ + case_.key_value_heads;

  // Rotates by `sign` times the angle, in float64. x: [batch, seq, heads, d].
  at::Tensor turned(const at::Tensor& x, double sign) const {
    const int64_t half = case_.head_dim / 2;
    const at::Tensor c = wide(table_.cos_Sd.narrow(0, 0, case_.seq)).unsqueeze(1);
    const at::Tensor s = wide(table_.sin_Sd.narrow(0, 0, case_.seq)).unsqueeze(1) * sign;
    const at::Tensor a = x.narrow(3, 0, half);
    const at::Tensor b = x.narrow(3, half, half);
    return at::cat({a * c - b * s, a * s + b * c}, 3);
  }

  // |a| + |b| bounds both terms of both results; each is a product and a sum, and the sine's sign is exact.
  at::Tensor bound(const at::Tensor& x, const at::Tensor& want, double extra_roundings) const {
    const int64_t half = case_.head_dim / 2;
    const at::Tensor terms = x.narrow(3, 0, half) + x.narrow(3, half, half);
    const double unit = dtype_ == at::kDouble ? unit_of(at::kDouble) : kUnitFloat;
    return at::cat({terms, terms}, 3) * (2 + extra_roundings) * unit + want.abs() * 1.01 * unit_of(dtype_);
  }

  at::Tensor summed_groups(const at::Tensor& x) const {
    return x.unflatten(2, {case_.key_value_heads, x.size(2) / case_.key_value_heads}).sum(3);
  }
};

TEST_P(Rope, ForwardRotatesQueriesAndKeysOnly) {
  const at::Tensor qkv = random_normal({case_.batch * case_.seq, heads_ * case_.head_dim}, dtype_, 1);
  const auto heads = [&](const at::Tensor& t) {
    return wide(t).view({case_.batch, case_.seq, heads_, case_.head_dim});
  };
  const at::Tensor before = heads(qkv);
  const at::Tensor part = before.narrow(2, 0, turned_);
  const at::Tensor want = turned(part, 1);
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    at::Tensor result = qkv.clone();
    rope_forward_(result, table_, shape_);
    EXPECT_LE(worst(heads(result).narrow(2, 0, turned_), want, bound(part.abs(), want, 0)), 1);
    EXPECT_TRUE(at::equal(heads(result).narrow(2, turned_, case_.key_value_heads),
                          before.narrow(2, turned_, case_.key_value_heads)));
  });
}

TEST_P(Rope, BackwardRotatesBackAndPacks) {
  const int64_t kv = case_.key_value_heads;
  for (const int64_t key_heads : {kv, case_.query_heads}) {
    for (const bool token_major : {false, true}) {
      SCOPED_TRACE(testing::Message() << key_heads << " key heads, token major " << token_major);
      // As attention returns them: [batch, heads, seq, d], in that order in memory or with tokens before
      // heads.
      const auto gradient = [&](int64_t n, uint64_t seed) {
        if (!token_major) return random_normal({case_.batch, n, case_.seq, case_.head_dim}, dtype_, seed);
        return random_normal({case_.batch, case_.seq, n, case_.head_dim}, dtype_, seed).transpose(1, 2);
      };
      const at::Tensor dq = gradient(case_.query_heads, 1);
      const at::Tensor dk = gradient(key_heads, 2);
      const at::Tensor dv = gradient(key_heads, 3);
      const at::Tensor q = wide(dq).transpose(1, 2);
      const at::Tensor k = wide(dk).transpose(1, 2);
      const at::Tensor v = wide(dv).transpose(1, 2);
      const at::Tensor want = at::cat({turned(q, -1), turned(summed_groups(k), -1), summed_groups(v)}, 2);
      const at::Tensor magnitudes = at::cat({q.abs(), summed_groups(k.abs()), summed_groups(v.abs())}, 2);
      const at::Tensor allowed =
          bound(magnitudes, want, static_cast<double>(key_heads) / static_cast<double>(kv));
      on_every_instruction_set([&](const std::string& set) {
        SCOPED_TRACE(set);
        const at::Tensor dqkv = rope_backward_pack(dq, dk, dv, table_, shape_);
        ASSERT_EQ(dqkv.sizes(), (at::IntArrayRef{case_.batch * case_.seq, heads_ * case_.head_dim}));
        EXPECT_LE(worst(dqkv.view({case_.batch, case_.seq, heads_, case_.head_dim}), want, allowed), 1);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Rope,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(Case{1, 1, 1, 1, 2}, Case{2, 5, 4, 2, 64},
                                                          Case{3, 17, 6, 1, 22}, Case{1, 4, 2, 2, 136})));

TEST(RopeLayouts, FeaturesApartInMemoryAreGathered) {
  const RopeShape shape = {.seq = 4, .query_heads = 2, .key_value_heads = 2};
  const RopeTable table = rope_table({.max_positions = 4, .head_dim = 6});
  const at::Tensor dq = random_normal({1, 2, 4, 6}, at::kFloat, 1);
  const at::Tensor apart = dq.transpose(2, 3).contiguous().transpose(2, 3);
  EXPECT_TRUE(same_bits(rope_backward_pack(apart, apart, dq, table, shape),
                        rope_backward_pack(dq, dq, dq, table, shape)));
}

TEST(RopeMisuse, NamesTheTensor) {
  const RopeTable table = rope_table({.max_positions = 8, .head_dim = 4});
  const RopeShape shape = {.seq = 4, .query_heads = 2, .key_value_heads = 1};
  EXPECT_THAT([&] { rope_table({.max_positions = 8, .head_dim = 5}); },
              ThrowsMessage<ConfigError>(HasSubstr("must be even and positive for rotary embedding, got 5")));
  EXPECT_THAT(
      [&] {
        rope_forward_(at::ones({6, 16}), table, shape);
      },
      ThrowsMessage<ShapeError>(HasSubstr("multiple of seq = 4 rows, got [6, 16]")));
  EXPECT_THAT(
      [&] {
        rope_forward_(at::ones({8, 15}), table, shape);
      },
      ThrowsMessage<ShapeError>(HasSubstr("(2 + 2 * 1) * 4 = 16 columns, got [8, 15]")));
  EXPECT_THAT(
      [&] {
        rope_forward_(at::ones({9, 16}), table, {.seq = 9, .query_heads = 2, .key_value_heads = 1});
      },
      ThrowsMessage<ShapeError>(HasSubstr("but it has 8")));
  EXPECT_THAT(
      [&] {
        rope_forward_(at::ones({8, 16}), table, {.seq = 4, .query_heads = 3, .key_value_heads = 2});
      },
      ThrowsMessage<ShapeError>(HasSubstr("query_heads (3) must be a multiple of key_value_heads (2)")));
  const at::Tensor dq = at::ones({1, 2, 4, 4});
  EXPECT_THAT(
      [&] {
        rope_backward_pack(dq, at::ones({1, 3, 4, 4}), dq, table, shape);
      },
      ThrowsMessage<ShapeError>(HasSubstr("dk must have 1 or 2 heads, got 3")));
  EXPECT_THAT(
      [&] {
        rope_backward_pack(dq, dq, at::ones({1, 2, 5, 4}), table, shape);
      },
      ThrowsMessage<ShapeError>(HasSubstr("dv must be [1, heads, 4, 4]")));
}

}  // namespace
}  // namespace braid::kernels
