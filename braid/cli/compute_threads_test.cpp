#include "braid/cli/compute_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>

namespace braid::cli {
namespace {

TEST(ComputeThreads, AreAsManyAsAsked) {
  const int before = at::get_num_threads();
  start_compute_threads(3);
  EXPECT_EQ(at::get_num_threads(), 3);
  start_compute_threads(before);
}

TEST(ComputeThreads, MoreThanTheSystemAllowsIsAnErrorAndNotTheEnd) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Room for the stacks of few threads.
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{4} << 30;
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      start_compute_threads(5000);
    } catch (const std::system_error& error) {
      ::_exit(error.code().value());
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), EAGAIN);
}

}  // namespace
}  // namespace braid::cli
