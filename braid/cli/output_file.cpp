#include "braid/cli/output_file.h"

#include "braid/base/error.h"

namespace braid::cli {

void require_new_file(std::string_view option, const std::filesystem::path& file, bool overwrites) {
  std::error_code ignored;
  const bool is_there = std::filesystem::is_regular_file(file, ignored);
  require<ConfigError>(overwrites || !is_there, option, " ", file.string(),
                       " exists: name another file, or pass --overwrite 1 to replace it");
}

}  // namespace braid::cli
