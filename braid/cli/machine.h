// The resources that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace braid::cli {

/// The file of the running program. Throws std::filesystem::filesystem_error where /proc is missing.
std::filesystem::path program_path();

/// Cores that this process may use: those that it is bound to, or fewer if its control group (container) has
/// a smaller quota. At least 1.
int64_t usable_cores();

/// This machine's name.
std::string host_name();

/// Cores of a control group's cpu.max ("150000 100000": 150 ms of every 100 ms), rounded up; nothing
/// for "max" and for malformed text.
std::optional<int64_t> cores_of_quota(std::string_view cpu_max);

}  // namespace braid::cli
