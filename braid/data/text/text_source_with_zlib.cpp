#include <zlib.h>

#include <limits>

#include "braid/base/error.h"
#include "braid/data/text/text_source_stream.h"

namespace braid::data {
namespace {

class GzipFile final : public ByteStream {
 public:
  explicit GzipFile(const std::filesystem::path& file)
      : name_(file.string()), file_(gzopen(file.c_str(), "rbe")) {
    require<DataError>(file_ != nullptr, name_, " cannot be opened");
    gzbuffer(file_, 128 * 1024);
  }
  ~GzipFile() override { gzclose_r(file_); }

  size_t read(std::span<char> buffer) override {
    const size_t most = std::min<size_t>(buffer.size(), std::numeric_limits<int>::max());
    const int got = gzread(file_, buffer.data(), static_cast<unsigned>(most));
    int error = Z_OK;
    const char* text = gzerror(file_, &error);
    // A truncated file yields its data first, then this error.
    require<DataError>(error != Z_BUF_ERROR, name_, " is truncated: it ends at compressed byte ",
                       position_bytes(), " within its gzip data; copy it again");
    require<DataError>(got >= 0, name_, " is damaged near compressed byte ", position_bytes(),
                       " (gzip: ", text == nullptr ? "" : text, "); copy it again");
    return static_cast<size_t>(got);
  }

  int64_t position_bytes() const override { return static_cast<int64_t>(gzoffset(file_)); }

 private:
  std::string name_;
  gzFile file_;
};

}  // namespace

std::unique_ptr<ByteStream> open_gzip(const std::filesystem::path& file) {
  return std::make_unique<GzipFile>(file);
}

bool gzip_available() { return true; }

}  // namespace braid::data
