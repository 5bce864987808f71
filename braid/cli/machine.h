// Where this program is.
#pragma once

#include <filesystem>

namespace braid::cli {

/// The file of the running program. Throws std::filesystem::filesystem_error where /proc is missing.
std::filesystem::path program_path();

}  // namespace braid::cli
