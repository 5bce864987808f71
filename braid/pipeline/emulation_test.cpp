#include "braid/pipeline/emulation.h"

#include <gtest/gtest.h>

#include <thread>

namespace braid::pipeline {
namespace {

using std::chrono::milliseconds;
using Seconds = EmulatedClock::Seconds;

constexpr Seconds kAction{0.005};
// More than any delay of a busy machine.
constexpr double kForgivesAll = 1e6;

// Sleeping is never shorter than asked, so each of these is at least that late, however busy the machine.
TEST(EmulatedClock, WhatDelaysAnActionOfFiveMillisecondsByThreeIsADelay) {
  EmulatedClock clock(EmulatedClock::kDefaultGrace);
  clock.restart();
  clock.run(kAction, std::nullopt);
  std::this_thread::sleep_for(milliseconds(3));
  clock.run(kAction, std::nullopt);
  EXPECT_GE(clock.delays(), Seconds(0.003));
  EXPECT_GE(clock.span(), 2 * kAction + Seconds(0.003));
}

TEST(EmulatedClock, NoiseWithinTheGraceIsTakenOut) {
  EmulatedClock clock(kForgivesAll);
  clock.restart();
  clock.run(kAction, std::nullopt);
  std::this_thread::sleep_for(milliseconds(3));
  clock.run(kAction, std::nullopt);
  EXPECT_EQ(clock.delays(), Seconds(0));
  EXPECT_NEAR(clock.span().count(), 2 * kAction.count(), 1e-9);
  EXPECT_GE(clock.noise(), Seconds(0.003));
}

TEST(EmulatedClock, TheGraceIsAShareOfTheAction) {
  const auto delays_of = [](Seconds action) {
    EmulatedClock clock(1.0);
    clock.restart();
    const auto due = clock.now();
    std::this_thread::sleep_for(milliseconds(20));
    // 20 ms late, of which a machine can only make more.
    clock.run(action, due);
    return clock.delays();
  };
  EXPECT_GE(delays_of(Seconds(0.019)), Seconds(0.020));
  EXPECT_GE(delays_of(Seconds(0)), Seconds(0.020));
}

TEST(EmulatedClock, ThePartOfAnActionIsForgivenAsMuchAsTheWhole) {
  EmulatedClock clock(kForgivesAll);
  clock.restart();
  const auto due = clock.now();
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_EQ(clock.run(Seconds(0), due, kAction), due);
  EXPECT_EQ(clock.delays(), Seconds(0));
}

}  // namespace
}  // namespace braid::pipeline
