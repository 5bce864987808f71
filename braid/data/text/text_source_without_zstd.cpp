#include "braid/base/error.h"
#include "braid/data/text/text_source_stream.h"

namespace braid::data {

std::unique_ptr<ByteStream> open_zstd(const std::filesystem::path& file) {
  throw ConfigError(
      cat(file.string(),
          " is compressed by zstd, but this build does not include zstd: install libzstd-dev and build with "
          "BRAID_WITH_ZSTD=ON, or decompress the file first"));
}

bool zstd_available() { return false; }

}  // namespace braid::data
