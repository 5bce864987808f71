#include "braid/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"

namespace braid::checkpoint {
namespace {

// What is written through, and not replaced: /dev/stdout, or a pipe that another program reads.
bool is_device_or_pipe(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

}  // namespace

ReadableFile::ReadableFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer would block forever. No effect on regular
  // files.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require<DataError>(descriptor_ >= 0, path_.string(), ": cannot be opened: ", std::strerror(errno),
                     "; check the path and its permissions");
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(descriptor_);  // no destructor runs when a constructor throws
    throw DataError(cat(path_.string(), ": is not a regular file"));
  }
  size_bytes_ = status.st_size;
}

ReadableFile::~ReadableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadableFile::ReadableFile(ReadableFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

ReadableFile& ReadableFile::operator=(ReadableFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void ReadableFile::read(int64_t offset_bytes, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset_bytes);
    if (count < 0 && errno == EINTR) continue;
    require<DataError>(count >= 0, path_.string(), ": cannot be read at byte ", offset_bytes, ": ",
                       std::strerror(errno), "; check the disk or the mount");
    require<DataError>(count > 0, path_.string(), ": ends at byte ", offset_bytes, ", before byte ",
                       offset_bytes + static_cast<int64_t>(bytes.size()), "; copy or download it again");
    offset_bytes += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

std::string read_text(const std::filesystem::path& path, int64_t limit_bytes) {
  const ReadableFile file(path);
  require<DataError>(file.size_bytes() <= limit_bytes, path.string(), ": is ",
                     bytes_text(static_cast<uint64_t>(file.size_bytes())), ", more than the ",
                     bytes_text(static_cast<uint64_t>(limit_bytes)),
                     " allowed for such a file; check that it is the right one");
  std::string text(static_cast<size_t>(file.size_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

ReplacingFile::ReplacingFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".partial") {
  if (is_device_or_pipe(path_)) {
    partial_ = path_;
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("opened");
    return;
  }
  remove_file(partial_);
  // O_EXCL: never write through a link created in the meantime.
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("created");
}

ReplacingFile::~ReplacingFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (partial_ != path_) ::unlink(partial_.c_str());
}

void ReplacingFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(cat("written at byte ", written_bytes_));
    written_bytes_ += count;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void ReplacingFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void ReplacingFile::commit() {
  require<InternalError>(descriptor_ >= 0, partial_.string(), ": committed twice");
  if (partial_ == path_) {
    ::close(std::exchange(descriptor_, -1));
    return;
  }
  if (::fsync(descriptor_) != 0) fail("synced");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail(cat("renamed to ", path_.filename().string()));
  ::close(std::exchange(descriptor_, -1));
  // The new name must survive a power failure too. A directory that can be written but not opened is not
  // synced.
  const std::filesystem::path parent =
      path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const int directory = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  const int error = ::fsync(directory) == 0 ? 0 : errno;
  ::close(directory);
  require<OutputError>(error == 0 || error == EINVAL, parent.string(),
                       ": cannot be synced: ", std::strerror(error), "; ", write_remedy(error));
}

void ReplacingFile::fail(std::string_view action) const {
  const int error = errno;
  throw OutputError(
      cat(partial_.string(), ": cannot be ", action, ": ", std::strerror(error), "; ", write_remedy(error)));
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  ReplacingFile file(path);
  file.write(text);
  file.commit();
}

void remove_file(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return;
  const int error = errno;
  throw OutputError(
      cat(path.string(), ": cannot be removed: ", std::strerror(error), "; remove it manually"));
}

void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  require<OutputError>(!error, path.string(), ": the directory cannot be created: ", error.message(), "; ",
                       write_remedy(error.value()));
}

}  // namespace braid::checkpoint
