#include "braid/cli/machine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "braid/base/text.h"

namespace braid::cli {

std::filesystem::path program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::optional<int64_t> cores_of_quota(std::string_view cpu_max) {
  const auto parts = split(trim(cpu_max), ' ');
  if (parts.size() != 2) return std::nullopt;
  const auto quota = parse_int(parts[0]);
  const auto period = parse_int(parts[1]);
  if (!quota || !period || *quota < 1 || *period < 1) return std::nullopt;
  return (*quota - 1) / *period + 1;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

int64_t usable_cores() {
  const int64_t bound = std::max<int64_t>(1, std::thread::hardware_concurrency());
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string cpu_max;
  std::getline(file, cpu_max);
  return std::min(bound, cores_of_quota(cpu_max).value_or(bound));
}

}  // namespace braid::cli
