#include "braid/kernels/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Every fifth row is ignored.
at::Tensor targets_for(int64_t rows, int64_t vocabulary) {
  at::Tensor targets = at::arange(rows) * 7919 % vocabulary;
  for (int64_t row = 3; row < rows; row += 5) targets[row] = kIgnoredTarget;
  return targets;
}

class CrossEntropy : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t>> {};

TEST_P(CrossEntropy, LossAndGradientAreWithinTheirRoundings) {
  const auto [dtype, rows, vocabulary] = GetParam();
  const at::Tensor logits = random_normal({rows, vocabulary}, dtype, 1, 3);
  const at::Tensor targets = targets_for(rows, vocabulary);
  const double scale = 0.37;
  const at::Tensor log_p = at::log_softmax(wide(logits), 1);
  const at::Tensor counted = targets.ne(kIgnoredTarget);
  const at::Tensor column = targets.clamp_min(0).unsqueeze(1);
  const at::Tensor losses =
      at::where(counted, -log_p.gather(1, column).squeeze(1), at::zeros({rows}, at::kDouble));
  at::Tensor want = log_p.exp();
  const at::Tensor p = want.clone();
  want.scatter_add_(1, column, at::full({rows, 1}, -1.0, at::kDouble));
  want = want * scale * counted.unsqueeze(1);
  // A term exp(x - max) is within 2 u for Exp and u * |x - max| for the subtraction, |x - max| < 2 * 8
  // deviations of 3. A block of 4096 terms is summed by at least four accumulators (1024 additions), then the
  // four and their lanes. The float64 path and ATen's sum in float32 stay below that too.
  const double unit = dtype == at::kDouble ? unit_of(at::kDouble) : kUnitFloat;
  const double sum_error = (2 + 48 + 1024 + 8) * unit;
  const double term_error = sum_error + (2 + 48 + 3) * unit;
  const at::Tensor bound = p * scale * term_error + want.abs() * 1.01 * unit_of(dtype);
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const at::Tensor result = logits.clone();
    const LossSum alone = softmax_cross_entropy_loss(result, targets);
    EXPECT_TRUE(same_bits(result, logits)) << "the loss alone leaves the logits unchanged";
    const LossSum loss = softmax_cross_entropy_(result, targets, scale);
    EXPECT_EQ(loss.count, counted.sum().item<int64_t>());
    EXPECT_NEAR(loss.sum, losses.sum().item<double>(), static_cast<double>(rows) * 1.01 * sum_error);
    EXPECT_EQ(alone.sum, loss.sum);
    EXPECT_EQ(alone.count, loss.count);
    EXPECT_LE(worst(result, want, bound), 1);
    EXPECT_EQ(wide(result).masked_select(counted.logical_not().unsqueeze(1)).abs().sum().item<double>(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, CrossEntropy,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(1, 6, 17),
                                          testing::Values(1, 29, 512, 4096, 9001)));

TEST(CrossEntropyExtremes, LargeLogitsDoNotOverflowAndLaterMaximaAreFound) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    on_every_instruction_set([&](const std::string& set) {
      SCOPED_TRACE(set);
      // The maximum is in the third block of the row, far above the rest.
      at::Tensor logits = at::full({1, 10000}, -1e4, dtype);
      logits[0][9000] = 2e4;
      logits[0][5000] = 1e4;
      const LossSum loss = softmax_cross_entropy_(logits, at::tensor({9000}, at::kLong), 1);
      EXPECT_EQ(loss.sum, 0);
      EXPECT_EQ(wide(logits).abs().sum().item<double>(), 0);
    });
  }
}

TEST(CrossEntropyExtremes, ANanOrInfiniteLogitShowsInTheLoss) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (const int64_t column : {0, 20, 36}) {
        on_every_instruction_set([&](const std::string& set) {
          SCOPED_TRACE(testing::Message() << set << " " << bad << " at " << column);
          at::Tensor logits = at::zeros({2, 37}, dtype);
          logits[1][column] = bad;
          EXPECT_TRUE(std::isnan(softmax_cross_entropy_(logits, at::tensor({1, 2}, at::kLong), 1).sum));
        });
      }
    }
  }
}

TEST(CrossEntropyThreads, ResultsDoNotDependOnTheirNumber) {
  const at::Tensor logits = random_normal({90, 3000}, at::kFloat, 1);
  const at::Tensor targets = targets_for(90, 3000);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    at::Tensor result = logits.clone();
    const LossSum loss = softmax_cross_entropy_(result, targets, 1.0);
    at::set_num_threads(1);
    return std::pair(loss.sum, result);
  };
  const auto one = run(1);
  const auto two = run(2);
  EXPECT_EQ(one.first, two.first);
  EXPECT_TRUE(same_bits(one.second, two.second));
}

TEST(CrossEntropyMisuse, NamesTheTargetAndLeavesTheLogits) {
  at::Tensor logits = at::ones({3, 10});
  EXPECT_THAT(
      [&] {
        softmax_cross_entropy_(logits, at::tensor({1, 10, 2}, at::kLong), 1);
      },
      ThrowsMessage<DataError>(HasSubstr("target 10 at row 1 is not a token id: ids are 0 to 9")));
  EXPECT_THAT(
      [&] {
        softmax_cross_entropy_loss(logits, at::tensor({1, 1, -1}, at::kLong));
      },
      ThrowsMessage<DataError>(HasSubstr("target -1 at row 2")));
  EXPECT_TRUE(at::equal(logits, at::ones({3, 10})));
  EXPECT_THAT([&] { softmax_cross_entropy_(logits, at::ones({2}, at::kLong), 1); },
              ThrowsMessage<ShapeError>(HasSubstr("targets must be [3] Long cpu, got [2] Long cpu")));
}

}  // namespace
}  // namespace braid::kernels
