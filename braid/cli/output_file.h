// What all commands do about an output that exists.
#pragma once

#include <filesystem>
#include <string_view>

namespace braid::cli {

/// Throws ConfigError, naming `option` and --overwrite, if `file` exists and `overwrites` is not set. A
/// device such as /dev/stdout, or an empty path, is no file to lose.
void require_new_file(std::string_view option, const std::filesystem::path& file, bool overwrites);

}  // namespace braid::cli
