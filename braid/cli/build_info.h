// What this program was built from and with.
#pragma once

#include <string>
#include <vector>

namespace braid::cli {

/// An optional part of braid: a library that BRAID_WITH_<NAME> selects, or "cuda".
struct BuildFeature {
  std::string name{};  // in small letters, as in x_with_zlib.cpp
  bool is_built_in = false;
  bool operator==(const BuildFeature&) const = default;
};

struct BuildInfo {
  std::string version{};                 // braid's
  std::string libtorch{};                // the version of its headers: "2.15.0"
  std::string compiler{};                // "GCC 12.2.0"
  std::string build_type{};              // CMake's: "Release"
  std::vector<BuildFeature> features{};  // every one there is, in alphabetical order
};

/// The description of this program: what `braid --version` prints and run.json keeps.
BuildInfo build_info();

}  // namespace braid::cli
