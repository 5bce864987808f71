#include "braid/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Cores in the affinity mask. Neither std::thread nor get_nprocs of every C library looks at it.
std::optional<int64_t> bound_cores() {
  constexpr int kMostCores = 1 << 20;
  for (int cores = 1024; cores <= kMostCores; cores *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<size_t>(cores)),
                                                               [](cpu_set_t* p) { CPU_FREE(p); });
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cores));
    if (::sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    if (errno != EINVAL) break;  // EINVAL: the system has more cores than fit
  }
  return std::nullopt;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> version_1_cores(const fs::path& group) {
  return cores_of_quota(
      cat(first_line(group / "cpu.cfs_quota_us"), " ", first_line(group / "cpu.cfs_period_us")));
}

// The smallest value of `read` in the group and in all above it, up to `root`.
template <typename Read>
std::optional<int64_t> smallest_up_to(const fs::path& root, std::string_view group, Read read) {
  std::optional<int64_t> smallest;
  const auto look = [&](const fs::path& path) {
    const std::optional<int64_t> cores = read(path);
    if (cores) smallest = std::min(smallest.value_or(*cores), *cores);
  };
  look(root);
  fs::path path = root;
  // A group outside of what this namespace shows begins with "..": only the root is visible then.
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") break;
    look(path /= part);
  }
  return smallest;
}

}  // namespace

int64_t usable_cores() {
  const int64_t bound =
      std::max<int64_t>(1, bound_cores().value_or(static_cast<int64_t>(std::thread::hardware_concurrency())));
  return std::min(bound, cores_of_control_groups("/proc/self/cgroup", "/sys/fs/cgroup").value_or(bound));
}

std::optional<int64_t> cores_of_control_groups(const fs::path& membership, const fs::path& mount) {
  std::optional<int64_t> smallest;
  const auto keep = [&](std::optional<int64_t> cores) {
    if (cores) smallest = std::min(smallest.value_or(*cores), *cores);
  };
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // "0::/user.slice" or "4:cpu,cpuacct:/user.slice"
    const std::vector<std::string> fields = split(line, ':');
    if (fields.size() < 3) continue;
    const std::string group = line.substr(fields[0].size() + fields[1].size() + 2);
    if (fields[1].empty()) {
      keep(smallest_up_to(mount, group,
                          [](const fs::path& path) { return cores_of_quota(first_line(path / "cpu.max")); }));
      continue;
    }
    const std::vector<std::string> controllers = split(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
    for (const std::string& name : {std::string("cpu"), fields[1]}) {
      keep(smallest_up_to(mount / name, group, version_1_cores));
    }
  }
  return smallest;
}

std::optional<int64_t> cores_of_quota(std::string_view cpu_max) {
  const auto parts = split(trim(cpu_max), ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_int(parts[0]);
  const auto period = parse_int(parts[1]);
  if (!quota || !period || *quota < 1 || *period < 1) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

int64_t threads_of_omp_num_threads(std::string_view value) {
  std::optional<int64_t> first;
  for (const std::string& piece : split(value, ',')) {
    const std::optional<int64_t> threads = parse_int(trim(piece));
    require<ConfigError>(
        threads && 1 <= *threads && *threads <= kMostThreads, "OMP_NUM_THREADS='", value,
        "' in the environment must be a whole number from 1 to ", kMostThreads,
        ", or a list of them such as 4,2, of which the first counts: correct it, or unset it");
    if (!first) first = threads;
  }
  return first.value();
}

}  // namespace braid
