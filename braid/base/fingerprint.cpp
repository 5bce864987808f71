#include "braid/base/fingerprint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "braid/base/error.h"
#include "braid/base/sha256.h"

namespace braid {
namespace {

constexpr size_t kDigits = 32;

// A file opened for reading, closed with the object.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      // O_NONBLOCK: a named pipe without a writer would block the open itself.
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    require<DataError>(fd_ >= 0, "cannot read ", path, ": ", std::strerror(errno));
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(fd_); }

  int64_t regular_size() const {
    struct stat status = {};
    require<DataError>(::fstat(fd_, &status) == 0, "cannot read ", path_, ": ", std::strerror(errno));
    require<DataError>(S_ISREG(status.st_mode), path_, " is not a regular file");
    return status.st_size;
  }

  void add_to(Sha256& hash, int64_t offset, int64_t count) const {
    std::string buffer(static_cast<size_t>(std::min(count, kFingerprintBlockBytes)), '\0');
    for (const int64_t end = offset + count; offset < end;) {
      const auto wanted = std::min(buffer.size(), static_cast<size_t>(end - offset));
      const ssize_t got = ::pread(fd_, buffer.data(), wanted, offset);
      if (got < 0 && errno == EINTR) continue;
      require<DataError>(got >= 0, "cannot read ", path_, ": ", std::strerror(errno));
      require<DataError>(got > 0, path_, " became shorter while it was read");
      hash.add({buffer.data(), static_cast<size_t>(got)});
      offset += got;
    }
  }

 private:
  const std::string& path_;
  int fd_;
};

}  // namespace

std::string file_fingerprint(const std::string& path) {
  const OpenFile file(path);
  const int64_t size = file.regular_size();
  Sha256 hash;
  if (size <= kMostFingerprintBytes) {
    file.add_to(hash, 0, size);
    return "sha256:" + hex(hash.finish()).substr(0, kDigits);
  }
  hash.add(cat(size, "\n"));
  constexpr int64_t kBlocks = kMostFingerprintBytes / kFingerprintBlockBytes;
  const int64_t last = size - kFingerprintBlockBytes;
  for (int64_t block = 0; block < kBlocks; ++block) {
    // last * block / (kBlocks - 1) without its overflow above 2^54 bytes.
    const int64_t whole = last / (kBlocks - 1) * block;
    file.add_to(hash, whole + last % (kBlocks - 1) * block / (kBlocks - 1), kFingerprintBlockBytes);
  }
  return "sampled:" + hex(hash.finish()).substr(0, kDigits);
}

std::string text_fingerprint(std::string_view text) {
  return "sha256:" + hex(sha256(text)).substr(0, kDigits);
}

}  // namespace braid
