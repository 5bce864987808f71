#include "braid/optim/state_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::optim {
namespace {

std::string size_text(int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }

/// Throws unless `result`, a system call's, is 0.
void require_done(int result, const std::string& path, const char* action) {
  if (result == 0) return;
  // What the kernel says of pages that it can neither read nor provide with blocks.
  const char* const reason = errno == EFAULT ? "the disk or the file system failed" : std::strerror(errno);
  throw OutputError(cat(path, ": offloaded optimizer states cannot be ", action, ": ", reason,
                        "; resume from the last checkpoint, with another offload directory"));
}

std::span<std::byte> map(int fd, int64_t offset, int64_t bytes, const std::string& path) {
  void* const data =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  require_done(data == MAP_FAILED ? -1 : 0, path, "mapped into memory");
  return {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
}

}  // namespace

int64_t whole_pages(int64_t bytes) {
  const int64_t page_bytes = ::sysconf(_SC_PAGESIZE);
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

StateFile::StateFile(const std::string& directory, int32_t rank)
    // mkostemp replaces the X's.
    : path_(cat(directory, "/braid-states-rank", rank, "-", std::string(6, 'X'))) {
  fd_ = ::mkostemp(path_.data(), O_CLOEXEC);
  require<OutputError>(fd_ >= 0, "offload directory ", directory,
                       ": no file can be created there: ", std::strerror(errno),
                       "; name an existing directory that every rank can write to, on a disk with room");
  ::unlink(path_.c_str());
}

StateFile::~StateFile() { ::close(fd_); }

void StateFile::reserve(int64_t bytes) {
  if (bytes <= reserved_bytes_) return;
  const int64_t missing_bytes = bytes - reserved_bytes_;
  // Asked first, since a reservation that fails has filled the disk for a moment.
  struct statvfs disk {};
  if (::fstatvfs(fd_, &disk) == 0) {
    const auto free_bytes = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
    require<OutputError>(missing_bytes <= free_bytes, path_,
                         ": no room for this rank's optimizer states: they need ", size_text(bytes),
                         ", of which ", size_text(reserved_bytes_), " are reserved, and the disk has ",
                         size_text(free_bytes), " free; free some space or offload to another directory");
  }
  const int error = ::posix_fallocate(fd_, reserved_bytes_, missing_bytes);
  require<OutputError>(error == 0, path_, ": ", size_text(bytes),
                       " for this rank's optimizer states cannot be reserved: ", std::strerror(error),
                       "; free some space or offload to another directory");
  reserved_bytes_ = bytes;
}

int64_t StateFile::append(int64_t bytes) {
  const int64_t offset = appended_bytes_;
  reserve(offset + whole_pages(bytes));
  appended_bytes_ += whole_pages(bytes);
  return offset;
}

StateFile::Range::Range(const StateFile& file, int64_t offset, int64_t bytes)
    : file_(file),
      offset_(offset),
      mapping_(map(file.fd_, offset, whole_pages(bytes), file.path_)),
      guard_(mapping_.memory) {}

StateFile::Range::Mapping::~Mapping() { ::munmap(memory.data(), memory.size()); }

void StateFile::Range::read() const {
  check();
  // The first call reads in large pieces, the second waits and maps the pages, so that the update has no page
  // faults. Systems before Linux 5.14 reject the second (EINVAL): pages are then mapped as they are accessed.
  require_done(::madvise(memory().data(), memory().size(), MADV_WILLNEED), file_.path_, "read");
  if (::madvise(memory().data(), memory().size(), MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    require_done(-1, file_.path_, "read");
}

void StateFile::Range::start_writing() const {
  require_done(::madvise(memory().data(), memory().size(), MADV_DONTNEED), file_.path_, "released");
  require_done(::sync_file_range(file_.fd_, offset_, bytes(), SYNC_FILE_RANGE_WRITE), file_.path_, "written");
}

void StateFile::Range::finish_writing() const {
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  require_done(::sync_file_range(file_.fd_, offset_, bytes(), kAll), file_.path_, "written");
  ::posix_fadvise(file_.fd_, offset_, bytes(), POSIX_FADV_DONTNEED);
}

void StateFile::Range::check() const {
  struct stat status {};
  require_done(::fstat(file_.fd_, &status), file_.path_, "examined");
  const int64_t end = offset_ + bytes();
  require<OutputError>(status.st_size >= end, file_.path_,
                       ": the file of the offloaded optimizer states shrank to ", size_text(status.st_size),
                       ", and this segment's end at ", size_text(end),
                       ": something truncated it; resume from the last checkpoint");
  require<OutputError>(
      !guard_.faulted(), file_.path_,
      ": the disk or file failed while an update used the offloaded optimizer states; resume from "
      "the last checkpoint, with another offload directory");
}

}  // namespace braid::optim
