#include "braid/report/log_entry.h"

#include <gtest/gtest.h>

namespace braid::report {
namespace {

LogEntry sample() {
  return {.global_step = 10,
          .metrics = {{.key = "loss", .value = 5.25, .text = "5.25000000"},
                      {.key = "eval_ppl", .value = 2, .text = "2.0"}},
          .brief = {"step 10", "loss 5.2500", "lr 3e-04"}};
}

TEST(LogEntry, TheFullLineHasEveryMetric) {
  EXPECT_EQ(full_line(sample()), "loss: 5.25000000, eval_ppl: 2.0");
  EXPECT_EQ(full_line({}), "");
}

TEST(LogEntry, TheShortLineDropsPartsThatDoNotFitFromTheEnd) {
  const std::string whole = "step 10  loss 5.2500  lr 3e-04";
  EXPECT_EQ(short_line(sample(), std::nullopt), whole);
  EXPECT_EQ(short_line(sample(), std::ssize(whole)), whole);
  EXPECT_EQ(short_line(sample(), std::ssize(whole) - 1), "step 10  loss 5.2500");
  EXPECT_EQ(short_line(sample(), 19), "step 10");
  EXPECT_EQ(short_line(sample(), 3), "step 10") << "an empty line would say nothing";
  EXPECT_EQ(short_line({}, 80), "");
}

TEST(CurveName, FollowsPaddleNlp) {
  EXPECT_EQ(curve_name({.key = "loss"}), "train/loss");
  EXPECT_EQ(curve_name({.key = "eval_loss"}), "eval/loss");
  EXPECT_EQ(curve_name({.key = "test_ppl"}), "test/ppl");
  EXPECT_EQ(curve_name({.key = "train_runtime"}), "train/train_runtime");
  EXPECT_EQ(curve_name({.key = "Effective Tokens per second"}), "train/effective_tokens_per_second");
}

}  // namespace
}  // namespace braid::report
