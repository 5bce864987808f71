#include "braid/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"

namespace braid {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Closes the file on every path out of a scope.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  require<DataError>(file.fd >= 0, path_, ": cannot be opened: ", std::strerror(errno));
  struct stat status {};
  require<DataError>(::fstat(file.fd, &status) == 0, path_, ": cannot be examined: ", std::strerror(errno));
  require<DataError>(S_ISREG(status.st_mode), path_, ": is not a regular file");
  size_ = status.st_size;
  if (size_ == 0) return;  // an empty file cannot be mapped
  void* const data = ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, file.fd, 0);
  require<DataError>(data != MAP_FAILED, path_, ": cannot be mapped into memory: ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

FileSink::FileSink(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  require<OutputError>(fd_ >= 0, path_, ": cannot be created: ", std::strerror(errno), "; ",
                       write_remedy(errno));
  buffer_.reserve(kBufferBytes);
}

FileSink::~FileSink() {
  if (fd_ >= 0) ::close(fd_);
}

void FileSink::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_out(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void FileSink::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void FileSink::write_out(std::span<const std::byte> bytes) {
  require<InternalError>(fd_ >= 0, path_, ": write after close");
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    require<OutputError>(count >= 0, path_, ": cannot be written after ", counted(written_, "byte"), ": ",
                         std::strerror(errno), "; ", write_remedy(errno));
    written_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void FileSink::close() {
  flush();
  // Devices and pipes cannot be synchronised (EINVAL).
  const bool is_synced = ::fsync(fd_) == 0 || errno == EINVAL;
  require<OutputError>(is_synced, path_, ": cannot be written to the disk: ", std::strerror(errno), "; ",
                       write_remedy(errno));
  const int fd = std::exchange(fd_, -1);
  require<OutputError>(::close(fd) == 0, path_, ": cannot be closed: ", std::strerror(errno), "; ",
                       write_remedy(errno));
}

}  // namespace braid
