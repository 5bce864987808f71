#include "braid/config/text_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "braid/base/error.h"

namespace braid::config {

std::string read_text_file(const std::string& path) {
  constexpr uintmax_t kLargest = uintmax_t{64} << 20;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  require<ConfigError>(std::filesystem::exists(status), "'", path, "' does not exist");
  require<ConfigError>(std::filesystem::is_regular_file(status), "'", path, "' is not a regular file");
  const uintmax_t size = std::filesystem::file_size(path, error);
  require<ConfigError>(!error, "cannot read '", path, "': ", error.message());
  require<ConfigError>(size <= kLargest, "'", path, "' has ", size,
                       " bytes; configuration files are limited to 64 MiB: is it the right file?");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  require<ConfigError>(in.good(), "cannot read '", path, "': ", std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  require<ConfigError>(!in.bad(), "cannot read '", path, "': ", std::strerror(errno));
  return text;
}

}  // namespace braid::config
