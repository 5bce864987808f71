// The version of this program.
#pragma once

#include <string_view>

namespace braid::cli {

/// The project's version in CMakeLists.txt; tests/cli_test.py compares them.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace braid::cli
