#include "braid/tensor/tensor_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::tensor {
namespace {

/// Index in the whole of every element of the slice, one by one.
std::vector<int64_t> indices_of(const TensorSlice& slice) {
  std::vector<int64_t> indices = {0};
  for (size_t i = 0; i < slice.whole.size(); ++i) {
    std::vector<int64_t> next;
    for (const int64_t outer : indices) {
      for (int64_t at = slice.part[i].begin; at < slice.part[i].end; ++at)
        next.push_back(outer * slice.whole[i] + at);
    }
    indices = std::move(next);
  }
  return indices;
}

void expect_runs_like_indices(const TensorSlice& slice) {
  std::vector<int64_t> covered;
  int64_t runs = 0;
  for_each_run(slice, [&](const ElementRun& run) {
    ++runs;
    EXPECT_EQ(run.begin_in_part, std::ssize(covered));
    for (int64_t i = 0; i < run.count; ++i) covered.push_back(run.begin_in_whole + i);
  });
  EXPECT_EQ(covered, indices_of(slice)) << to_string(slice);
  if (slice.is_whole() && slice.numel() > 0) {
    EXPECT_EQ(runs, 1) << "the whole is one run";
  }
}

TEST(TensorSlice, RunsCoverEverySmallSliceInOrder) {
  for (int64_t a = 1; a <= 4; ++a) {
    for (int64_t b = 1; b <= 3; ++b) {
      for (int64_t a0 = 0; a0 <= a; ++a0) {
        for (int64_t a1 = a0; a1 <= a; ++a1) {
          for (int64_t b0 = 0; b0 <= b; ++b0) {
            for (int64_t b1 = b0; b1 <= b; ++b1) {
              expect_runs_like_indices({.name = "w", .whole = {a, b}, .part = {{a0, a1}, {b0, b1}}});
              expect_runs_like_indices(
                  {.name = "w", .whole = {a, 2, b}, .part = {{a0, a1}, {0, 2}, {b0, b1}}});
              expect_runs_like_indices(
                  {.name = "w", .whole = {2, a, b}, .part = {{1, 2}, {a0, a1}, {b0, b1}}});
            }
          }
        }
      }
    }
  }
  expect_runs_like_indices(whole_tensor("scalar", {}));
  expect_runs_like_indices(whole_tensor("vector", {7}));
}

TEST(TensorSlice, DescribesItself) {
  const TensorSlice slice = {.name = "w", .whole = {8, 6}, .part = {{0, 8}, {2, 4}}};
  EXPECT_EQ(slice.sizes(), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(slice.numel(), 16);
  EXPECT_FALSE(slice.is_whole());
  EXPECT_EQ(to_string(slice), "w[0:8, 2:4]");
  EXPECT_EQ(to_string(whole_tensor("w", {8, 6})), "w");
}

TEST(TensorSlice, RangesBeyondTheTensorAreRejected) {
  try {
    validate({.name = "w", .whole = {8}, .part = {{4, 9}}});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "w: [4, 9) is not within dimension 0 of size 8");
  }
  EXPECT_THROW(validate({.name = "w", .whole = {8, 2}, .part = {{0, 8}}}), ShapeError);
  EXPECT_THROW(validate({.name = "w", .whole = {8}, .part = {{5, 4}}}), ShapeError);
}

}  // namespace
}  // namespace braid::tensor
