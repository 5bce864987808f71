// Cross-entropy over a vocabulary in parts, against the whole rows.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "braid/base/error.h"
#include "braid/kernels/cross_entropy.h"
#include "braid/kernels/test_support.h"

namespace braid::kernels {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// The columns [begin, begin + size) of logits.
struct Part {
  VocabularyPart ids;
  at::Tensor logits;
};

/// `logits` in n parts of ceil(V / n) columns, the last shorter.
std::vector<Part> cut(const at::Tensor& logits, int64_t n) {
  const int64_t vocabulary = logits.size(1), size = (vocabulary + n - 1) / n;
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < vocabulary; begin += size) {
    const int64_t width = std::min(size, vocabulary - begin);
    parts.push_back({{.begin = begin, .vocabulary = vocabulary},
                     logits.narrow(1, begin, width).clone(at::MemoryFormat::Contiguous)});
  }
  return parts;
}

WholeSoftmax join(const std::vector<Part>& parts, const at::Tensor& targets) {
  std::vector<at::Tensor> statistics;
  for (const Part& part : parts)
    statistics.push_back(softmax_part_statistics(part.logits, targets, part.ids));
  return join_softmax_parts(at::stack(statistics), targets);
}

at::Tensor targets_for(int64_t rows, int64_t vocabulary) {
  at::Tensor targets = at::arange(rows) * 7919 % vocabulary;
  for (int64_t row = 3; row < rows; row += 5) targets[row] = kIgnoredTarget;
  return targets;
}

class CrossEntropyParts
    : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t, int64_t>> {};

TEST_P(CrossEntropyParts, LossAndGradientAreThoseOfWholeRows) {
  const auto [dtype, rows, vocabulary, n] = GetParam();
  const at::Tensor logits = random_normal({rows, vocabulary}, dtype, 1, 3);
  const at::Tensor targets = targets_for(rows, vocabulary);
  const double scale = 0.37;
  const at::Tensor log_p = at::log_softmax(wide(logits), 1);
  const at::Tensor counted = targets.ne(kIgnoredTarget);
  const at::Tensor column = targets.clamp_min(0).unsqueeze(1);
  const at::Tensor losses =
      at::where(counted, -log_p.gather(1, column).squeeze(1), at::zeros({rows}, at::kDouble));
  const at::Tensor p = log_p.exp();
  at::Tensor want = p.clone().scatter_add_(1, column, at::full({rows, 1}, -1.0, at::kDouble));
  want = want * scale * counted.unsqueeze(1);
  // As for whole rows (cross_entropy_test.cpp): a term is within 2 u for Exp and u |x - max|, |x - max| < 48;
  // a block's sum within 1032 u. A part's sum, its maximum's logit and the whole sum are then rounded once
  // each to the statistics' dtype, and factors once more. ATen's sums over a part have no more additions in a
  // row.
  const double unit = dtype == at::kDouble ? unit_of(at::kDouble) : kUnitFloat;
  const double sum_error = (2 + 48 + 1024 + 8 + 2) * unit;
  const double term_error = sum_error + (2 + 48 + 3) * unit;
  const at::Tensor bound = (p * scale * term_error + want.abs() * 1.01 * unit_of(dtype));
  on_every_instruction_set([&](const std::string& set) {
    SCOPED_TRACE(set);
    const std::vector<Part> parts = cut(logits, n);
    const WholeSoftmax whole = join(parts, targets);
    EXPECT_EQ(whole.loss.count, counted.sum().item<int64_t>());
    EXPECT_NEAR(whole.loss.sum, losses.sum().item<double>(), static_cast<double>(rows) * 1.01 * sum_error);
    std::vector<at::Tensor> gradients;
    for (const Part& part : parts) {
      softmax_part_gradient_(part.logits, targets, part.ids, whole.max_sum_2C, scale);
      gradients.push_back(part.logits);
    }
    const at::Tensor got = at::cat(gradients, 1);
    EXPECT_LE(worst(got, want, bound), 1);
    EXPECT_EQ(wide(got).masked_select(counted.logical_not().unsqueeze(1)).abs().sum().item<double>(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, CrossEntropyParts,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                                          testing::Values(1, 17), testing::Values(8, 29, 9001),
                                          testing::Values(1, 2, 3, 4)));

TEST(CrossEntropyPartsExtremes, OnePartFarAboveTheOthers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const int64_t top : {0, 1, 2}) {
      on_every_instruction_set([&](const std::string& set) {
        SCOPED_TRACE(testing::Message() << set << ", part " << top);
        at::Tensor logits = at::full({1, 30}, -1e4, dtype);
        logits[0][top * 10 + 4] = 2e4;
        const at::Tensor targets = at::tensor({top * 10 + 4}, at::kLong);
        const std::vector<Part> parts = cut(logits, 3);
        const WholeSoftmax whole = join(parts, targets);
        EXPECT_EQ(whole.loss.sum, 0);
        for (const Part& part : parts) {
          softmax_part_gradient_(part.logits, targets, part.ids, whole.max_sum_2C, 1);
          EXPECT_EQ(wide(part.logits).abs().sum().item<double>(), 0);
        }
      });
    }
  }
}

TEST(CrossEntropyPartsExtremes, ANanOrInfiniteLogitOfAnyPartShowsInTheLoss) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (const int64_t column : {0, 20, 36}) {
        on_every_instruction_set([&](const std::string& set) {
          SCOPED_TRACE(testing::Message() << set << " " << bad << " at " << column);
          at::Tensor logits = at::zeros({2, 37}, dtype);
          logits[1][column] = bad;
          EXPECT_TRUE(std::isnan(join(cut(logits, 3), at::tensor({1, 2}, at::kLong)).loss.sum));
        });
      }
    }
  }
}

TEST(CrossEntropyPartsMisuse, NamesWhatDoesNotMatch) {
  const at::Tensor logits = at::ones({2, 10});
  const at::Tensor targets = at::tensor({1, 20}, at::kLong);
  EXPECT_THAT([&] { softmax_part_statistics(logits, targets, {.begin = 10, .vocabulary = 20}); },
              ThrowsMessage<DataError>(HasSubstr("target 20 at row 1 is not a token id: ids are 0 to 19")));
  EXPECT_THAT(
      [&] { softmax_part_statistics(logits, targets, {.begin = 15, .vocabulary = 21}); },
      ThrowsMessage<ShapeError>(HasSubstr("logits of ids 15 to 24 are not part of a vocabulary of 21")));
  EXPECT_THAT(
      [&] {
        join_softmax_parts(at::ones({2, 2, 2}), targets);
      },
      ThrowsMessage<ShapeError>(HasSubstr("statistics must be [parts, 3, rows] Float or Double")));
  EXPECT_THAT(
      [&] {
        softmax_part_gradient_(logits, targets, {.begin = 0, .vocabulary = 30}, at::ones({2, 3}), 1);
      },
      ThrowsMessage<ShapeError>(HasSubstr("max_sum must be [2, 2] Float cpu")));
  EXPECT_TRUE(at::equal(logits, at::ones({2, 10})));
}

}  // namespace
}  // namespace braid::kernels
