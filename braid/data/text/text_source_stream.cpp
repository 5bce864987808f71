#include "braid/data/text/text_source_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/foreign_file.h"

namespace braid::data {
namespace {

std::string system_text(int error) { return std::generic_category().message(error); }

class PlainFile final : public ByteStream {
 public:
  explicit PlainFile(const std::filesystem::path& file)
      : name_(file.string()), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    require<DataError>(descriptor_ >= 0, name_, " cannot be opened: ", system_text(errno));
  }
  ~PlainFile() override { ::close(descriptor_); }

  size_t read(std::span<char> buffer) override {
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, buffer.data(), buffer.size());
    } while (got < 0 && errno == EINTR);
    require<DataError>(got >= 0, name_, " cannot be read at byte ", position_bytes_, ": ",
                       system_text(errno));
    position_bytes_ += got;
    return static_cast<size_t>(got);
  }

  int64_t position_bytes() const override { return position_bytes_; }

 private:
  std::string name_;
  int descriptor_;
  int64_t position_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& file) {
  std::array<char, 16> first = {};
  const size_t got = PlainFile(file).read(first);
  switch (recognise_format({first.data(), got}, static_cast<int64_t>(got))) {
    case FileFormat::kGzip:
      return open_gzip(file);
    case FileFormat::kZstd:
      return open_zstd(file);
    default:
      return open_plain(file);
  }
}

std::unique_ptr<ByteStream> open_plain(const std::filesystem::path& file) {
  return std::make_unique<PlainFile>(file);
}

bool StreamReader::fill() {
  constexpr size_t kBlockBytes = size_t{256} * 1024;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kBlockBytes);
  const size_t got = stream_->read(std::span(buffer_).subspan(old_size));
  buffer_.resize(old_size + got);
  return got > 0;
}

std::string_view StreamReader::peek(size_t bytes) {
  while (buffer_.size() - begin_ < bytes && fill()) {
  }
  return std::string_view(buffer_).substr(begin_);
}

std::optional<std::string> StreamReader::line() {
  size_t searched = begin_;
  while (true) {
    const size_t newline = buffer_.find('\n', searched);
    if (newline != std::string::npos) {
      std::string text = buffer_.substr(begin_, newline - begin_);
      begin_ = newline + 1;
      return text;
    }
    const size_t had = buffer_.size() - begin_;
    if (!fill()) {
      if (had == 0) return std::nullopt;
      begin_ = buffer_.size();
      return buffer_.substr(buffer_.size() - had);
    }
    searched = had;
  }
}

std::string StreamReader::rest() {
  while (fill()) {
  }
  std::string text = buffer_.substr(begin_);
  begin_ = buffer_.size();
  return text;
}

}  // namespace braid::data
