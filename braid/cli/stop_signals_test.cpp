#include "braid/cli/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace braid::cli {
namespace {

// The exit status of a process of its own that runs `body`, or 1000 + the signal that killed it.
int outcome_of(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Sends the signal to the calling process from another one.
void send_from_another(int signal) {
  const pid_t target = ::getpid();
  outcome_of([&] { return ::kill(target, signal); });
}

TEST(StopSignals, TheFirstOfEachIsOnlyNoted) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    EXPECT_EQ(outcome_of([&] {
                const StopSignals signals;
                if (signals.seen()) return 0;
                ::raise(signal);
                return signals.seen().value_or(0);
              }),
              signal);
  }
}

TEST(StopSignals, ASecondOneOfTheSameSenderEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(outcome_of([&] {
                const StopSignals signals;
                ::raise(SIGINT);
                ::raise(signal);
                return 0;
              }),
              1000 + signal);
  }
}

TEST(StopSignals, AWarningIsNotTheFirstOfTwo) {
  EXPECT_EQ(outcome_of([] {
              const StopSignals signals;
              ::raise(SIGUSR1);
              ::raise(SIGTERM);
              return signals.seen().value_or(0);
            }),
            SIGUSR1);
}

TEST(StopSignals, WarningsMayRepeat) {
  EXPECT_EQ(outcome_of([] {
              const StopSignals signals;
              ::raise(SIGTERM);
              for (int i = 0; i < 3; ++i) ::raise(i % 2 == 0 ? SIGUSR1 : SIGUSR2);
              return signals.seen().value_or(0);
            }),
            SIGTERM);
}

// As where Slurm signals the launcher and the rank, and the launcher passes its own on.
TEST(StopSignals, OneRequestThatArrivesTwiceIsOne) {
  EXPECT_EQ(outcome_of([] {
              const StopSignals signals;
              ::raise(SIGTERM);
              send_from_another(SIGTERM);
              return signals.seen().value_or(0);
            }),
            SIGTERM);
}

TEST(StopSignals, WhatWasIgnoredStaysIgnored) {
  EXPECT_EQ(outcome_of([] {
              ::signal(SIGHUP, SIG_IGN);
              const StopSignals signals;
              ::raise(SIGHUP);
              return signals.seen().value_or(0);
            }),
            0);
}

TEST(StopSignals, AfterwardsTheyActAsBefore) {
  EXPECT_EQ(outcome_of([] {
              { const StopSignals signals; }
              ::raise(SIGTERM);
              return 0;
            }),
            1000 + SIGTERM);
}

TEST(SignalName, IsTheUsualOne) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGUSR1), "SIGUSR1");
}

}  // namespace
}  // namespace braid::cli
