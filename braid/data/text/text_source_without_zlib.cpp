#include "braid/base/error.h"
#include "braid/data/text/text_source_stream.h"

namespace braid::data {

std::unique_ptr<ByteStream> open_gzip(const std::filesystem::path& file) {
  throw ConfigError(
      cat(file.string(),
          " is compressed by gzip, but this build does not include zlib: install zlib1g-dev and build with "
          "BRAID_WITH_ZLIB=ON, or decompress the file first"));
}

bool gzip_available() { return false; }

}  // namespace braid::data
