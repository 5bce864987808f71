#include <zstd.h>

#include <vector>

#include "braid/base/error.h"
#include "braid/data/text/text_source_stream.h"

namespace braid::data {
namespace {

// Frames one after the other, as zstd's own program reads them.
class ZstdFile final : public ByteStream {
 public:
  explicit ZstdFile(const std::filesystem::path& file)
      : name_(file.string()), file_(open_plain(file)), input_(ZSTD_DStreamInSize()) {}

  size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    while (out.pos == 0 && !buffer.empty()) {
      if (in_.pos == in_.size) in_ = {input_.data(), file_->read(input_), 0};
      const bool is_ended = in_.size == 0;
      if (is_ended && !inside_frame_) return 0;
      const size_t hint = ZSTD_decompressStream(context_.get(), &out, &in_);
      require<DataError>(ZSTD_isError(hint) == 0, name_, " is damaged near compressed byte ",
                         position_bytes(), " (zstd: ", ZSTD_getErrorName(hint), "); copy it again");
      inside_frame_ = hint != 0;
      require<DataError>(!is_ended || out.pos > 0 || !inside_frame_, name_,
                         " is truncated: it ends at compressed byte ", position_bytes(),
                         " within its zstd data; copy it again");
    }
    return out.pos;
  }

  int64_t position_bytes() const override {
    return file_->position_bytes() - static_cast<int64_t>(in_.size - in_.pos);
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  std::string name_;
  std::unique_ptr<ByteStream> file_;
  std::vector<char> input_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  std::unique_ptr<ZSTD_DCtx, Free> context_{ZSTD_createDCtx()};
  bool inside_frame_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_zstd(const std::filesystem::path& file) {
  return std::make_unique<ZstdFile>(file);
}

bool zstd_available() { return true; }

}  // namespace braid::data
