#include "braid/kernels/embedding.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Embedding, TakesTheRows) {
  const at::Tensor weight = random_normal({11, 5}, at::kBFloat16, 1);
  const at::Tensor y = kernels::embedding(at::tensor({3, 0, 10, 3}, at::kLong), weight);
  EXPECT_TRUE(same_bits(y, at::stack({weight[3], weight[0], weight[10], weight[3]})));
}

// Token order, one float32 addition each: identical to the last bit.
TEST(Embedding, GradientAddsRowsInTokenOrder) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const at::ScalarType wide_type = dtype == at::kDouble ? at::kDouble : at::kFloat;
    for (const int64_t width : {1, 19, 64}) {
      const at::Tensor tokens = at::arange(100) * 37 % 23;
      const at::Tensor dy = random_normal({100, width}, dtype, 1);
      const at::Tensor before = random_normal({30, width}, wide_type, 2);
      for (const Accumulate mode : {Accumulate::kOverwrite, Accumulate::kAdd}) {
        at::Tensor want = mode == Accumulate::kAdd ? before.clone() : at::zeros_like(before);
        for (int64_t i = 0; i < 100; ++i) want[tokens[i].item<int64_t>()] += dy[i];
        on_every_instruction_set([&](const std::string& set) {
          at::Tensor main_grad = before.clone();
          embedding_backward(tokens, dy, main_grad, mode);
          EXPECT_TRUE(same_bits(main_grad, want)) << set << " " << width;
        });
      }
    }
  }
}

TEST(Embedding, GradientDoesNotDependOnTheNumberOfThreads) {
  const at::Tensor tokens = at::arange(500) * 37 % 200;
  const at::Tensor dy = random_normal({500, 333}, at::kFloat, 1);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    at::Tensor main_grad = at::empty({200, 333});
    embedding_backward(tokens, dy, main_grad, Accumulate::kOverwrite);
    at::set_num_threads(1);
    return main_grad;
  };
  EXPECT_TRUE(same_bits(run(1), run(2)));
}

TEST(EmbeddingMisuse, NamesTheToken) {
  const at::Tensor weight = at::ones({10, 4});
  EXPECT_THAT(
      [&] {
        kernels::embedding(at::tensor({0, 10}, at::kLong), weight);
      },
      ThrowsMessage<DataError>(HasSubstr("token id 10 at position 1 is outside the vocabulary of 10")));
  EXPECT_THAT(
      [&] {
        embedding_backward(at::tensor({-1}, at::kLong), at::ones({1, 4}), weight, Accumulate::kAdd);
      },
      ThrowsMessage<DataError>(HasSubstr("token id -1 at position 0")));
  EXPECT_THAT(
      [&] {
        embedding_backward(at::zeros({2}, at::kLong), at::ones({1, 4}), weight, Accumulate::kAdd);
      },
      ThrowsMessage<ShapeError>(HasSubstr("tokens must be [1] Long cpu, got [2] Long cpu")));
  EXPECT_THAT([&] { kernels::embedding(at::zeros({2}), weight); },
              ThrowsMessage<ShapeError>(HasSubstr("tokens must be [2] Long")));
}

}  // namespace
}  // namespace braid::kernels
