#include "braid/cli/build_info.h"

#include <torch/version.h>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/version.h"

namespace braid::cli {
namespace {

std::string compiler_text() {
#if defined(__clang__)
  return cat("Clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return cat("GCC ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

BuildInfo build_info() {
  BuildInfo info = {.version = std::string(kVersion),
                    .libtorch = cat(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH),
                    .compiler = compiler_text(),
                    .build_type = BRAID_BUILD_TYPE};
  // BraidFolders.cmake defines it as "cuda=OFF gloo=ON ...".
  for (const std::string& word : split(BRAID_BUILD_FEATURES, ' ')) {
    const std::vector<std::string> parts = split(word, '=');
    info.features.push_back({.name = parts.front(), .is_built_in = parts.back() == "ON"});
  }
  return info;
}

}  // namespace braid::cli
