#include "braid/comm/broken_pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace braid::comm {
namespace {

int write_to_closed_socket() {
  std::array<int, 2> ends = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return 0;
  ::close(ends[1]);
  const char byte = 0;
  errno = 0;
  const ssize_t written = ::write(ends[0], &byte, 1);
  const int code = errno;
  ::close(ends[0]);
  return written == 1 ? 0 : code;
}

TEST(BrokenPipeGuard, MakesItAnErrorAndLeavesNoSignalBehind) {
  {
    const BrokenPipeGuard guard;
    EXPECT_EQ(write_to_closed_socket(), EPIPE);
    const BrokenPipeGuard inner;
    EXPECT_EQ(write_to_closed_socket(), EPIPE);
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGPIPE), 0);
  EXPECT_EXIT(write_to_closed_socket(), testing::KilledBySignal(SIGPIPE), "")
      << "outside the guard, the signal acts as before";
}

}  // namespace
}  // namespace braid::comm
