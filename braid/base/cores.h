// The processor cores that this process may use, and the threads that its environment asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace braid {

/// Cores that this process may use: those that it is bound to (taskset, Slurm, a container's cpuset), or
/// fewer if its control group or one above it has a smaller quota. At least 1. Everything that divides work
/// among cores asks here.
int64_t usable_cores();

/// The smallest quota, in cores rounded up, of a process's control groups, of version 2 (cpu.max) or 1
/// (cpu.cfs_quota_us), from its own up to the highest that is visible; nothing if there is none.
/// `membership` is the process's /proc/self/cgroup, `mount` /sys/fs/cgroup.
std::optional<int64_t> cores_of_control_groups(const std::filesystem::path& membership,
                                               const std::filesystem::path& mount);

/// Cores of a control group's cpu.max ("150000 100000": 150 ms of every 100 ms), rounded up; nothing
/// for "max" and for malformed text.
std::optional<int64_t> cores_of_quota(std::string_view cpu_max);

/// More threads than this are considered a mistake.
inline constexpr int64_t kMostThreads = 4096;

/// The threads that the variable OMP_NUM_THREADS asks for; of a list for nested levels ("4,2"), the first.
/// Throws ConfigError naming variable and value unless all are whole numbers from 1 to kMostThreads.
int64_t threads_of_omp_num_threads(std::string_view value);

}  // namespace braid
