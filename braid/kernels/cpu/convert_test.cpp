#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "braid/kernels/cpu/kernels.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

at::Tensor every_bfloat16() {
  return at::arange(65536).to(at::kInt).to(at::kShort).view(at::kBFloat16).view({1, 65536});
}

TEST(Convert, EveryBfloat16BecomesItsFloat) {
  const at::Tensor all = every_bfloat16();
  on_every_instruction_set([&](const std::string& set) {
    const at::Tensor got = at::empty({1, 65536});
    cpu::convert(all, got);
    EXPECT_TRUE(same_bits(got, all.to(at::kFloat))) << set;
  });
}

TEST(Convert, FloatsRoundToNearestEven) {
  // Around every bfloat16: itself, just below, at and just above the middle to the next one.
  const at::Tensor upper = at::arange(65536) * 65536;
  const at::Tensor bits =
      at::cat({upper, upper + 1, upper + 32767, upper + 32768, upper + 32769, upper + 65535});
  const at::Tensor floats = bits.to(at::kInt).view(at::kFloat).view({6, 65536});
  const at::Tensor want = floats.to(at::kBFloat16);
  on_every_instruction_set([&](const std::string& set) {
    const at::Tensor got = at::empty({6, 65536}, at::kBFloat16);
    cpu::convert(floats, got);
    EXPECT_TRUE(at::equal(at::isnan(got), at::isnan(want))) << set;
    EXPECT_TRUE(same_bits(got.masked_fill(at::isnan(got), 0), want.masked_fill(at::isnan(want), 0))) << set;
  });
}

TEST(Convert, SlicesOfColumns) {
  const at::Tensor from = random_normal({7, 90}, at::kFloat, 1);
  on_every_instruction_set([&](const std::string& set) {
    const at::Tensor to = at::zeros({7, 200}, at::kBFloat16);
    cpu::convert(from.narrow(1, 3, 77), to.narrow(1, 50, 77));
    const at::Tensor want = at::zeros({7, 200}, at::kBFloat16);
    want.narrow(1, 50, 77).copy_(from.narrow(1, 3, 77));
    EXPECT_TRUE(same_bits(to, want)) << set;
  });
}

}  // namespace
}  // namespace braid::kernels
