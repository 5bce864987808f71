#include "braid/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"

namespace braid {
namespace {

TEST(Cores, FollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Cores, QuotasAreRoundedUp) {
  EXPECT_EQ(cores_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("1000 100000"), 1);
  for (const char* none : {"max 100000", "-1 100000", "0 100000", "1 0", "1", "", "a b", "1 2 3"}) {
    EXPECT_FALSE(cores_of_quota(none)) << none;
  }
}

TEST(Cores, TheSmallestQuotaOfAllGroupsAboveCounts) {
  const ScratchDirectory scratch;
  const std::string membership = scratch.write("cgroup", "0::/user.slice/job:7/task\n");
  const auto cores = [&] { return cores_of_control_groups(membership, scratch / "fs"); };
  EXPECT_FALSE(cores());
  scratch.write("fs/user.slice/job:7/task/cpu.max", "max 100000\n");
  EXPECT_FALSE(cores());
  scratch.write("fs/user.slice/job:7/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores(), 3);
  scratch.write("fs/user.slice/cpu.max", "800000 100000\n");
  EXPECT_EQ(cores(), 3);
  scratch.write("fs/cpu.max", "200000 100000\n");  // the whole of a container's view
  EXPECT_EQ(cores(), 2);
  scratch.write("cgroup", "0::/../../elsewhere\n");
  EXPECT_EQ(cores(), 2);
  EXPECT_FALSE(cores_of_control_groups(scratch.file("absent"), scratch / "fs"));
}

TEST(Cores, QuotasOfVersion1Count) {
  const ScratchDirectory scratch;
  const std::string membership =
      scratch.write("cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n");
  const auto cores = [&] { return cores_of_control_groups(membership, scratch / "fs"); };
  scratch.write("fs/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  scratch.write("fs/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cores());
  scratch.write("fs/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(cores(), 3);
  scratch.write("fs/memory/docker/1/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(cores(), 3);
}

TEST(OmpNumThreads, OfAListTheFirstNumberCounts) {
  EXPECT_EQ(threads_of_omp_num_threads("1"), 1);
  EXPECT_EQ(threads_of_omp_num_threads(" 8 "), 8);
  EXPECT_EQ(threads_of_omp_num_threads("4,2"), 4);
  EXPECT_EQ(threads_of_omp_num_threads("4, 2 ,1"), 4);
}

TEST(OmpNumThreads, AnythingElseIsRejectedByName) {
  for (const char* bad :
       {"0", "abc", "-3", "1e9", "1000000000", "4,", ",4", "4,0", "2.5", "4 2", "", "99999999999999999999"}) {
    try {
      threads_of_omp_num_threads(bad);
      ADD_FAILURE() << "accepted " << bad;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(cat("OMP_NUM_THREADS='", bad, "'")), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace braid
