#include "braid/optim/loss_scaler.h"

#include <gtest/gtest.h>

namespace braid::optim {
namespace {

TEST(LossScaler, GrowsAfterStepsInARowWithoutOverflow) {
  LossScaler scaler({.initial = 8, .growth = 2, .growth_interval = 3});
  for (int i = 0; i < 2; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 8);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 16);
  for (int i = 0; i < 2; ++i) scaler.update(false);
  scaler.update(true);  // begins the count anew
  for (int i = 0; i < 2; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 16);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32);
}

TEST(LossScaler, ShrinksAfterOverflowsInARowAndNotBelowTheFloor) {
  LossScaler scaler({.initial = 10, .backoff = 0.5, .backoff_after = 2, .floor = 4});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 10);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 5);
  scaler.update(true);
  scaler.update(false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 5) << "not in a row";
  EXPECT_FALSE(scaler.is_at_floor());
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_TRUE(scaler.is_at_floor());
}

TEST(LossScaler, HasPaddlesDefaults) {
  LossScaler scaler({});
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32768 * 0.8);
  for (int i = 0; i < 1000; ++i) scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32768 * 0.8 * 2);
}

}  // namespace
}  // namespace braid::optim
