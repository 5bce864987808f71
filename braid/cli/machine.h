// What this process may use of the machine it runs on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace braid::cli {

/// The file of the running program. Throws std::filesystem::filesystem_error where /proc is missing.
std::filesystem::path program_path();

/// Cores this process may use: those it is bound to, or fewer where a control group (a container) has a
/// smaller quota. At least 1.
int64_t usable_cores();

/// Cores of a control group's cpu.max ("150000 100000": 150 ms of every 100 ms), rounded up; nothing for
/// "max" and for text of another form.
std::optional<int64_t> cores_of_quota(std::string_view cpu_max);

}  // namespace braid::cli
