#include "braid/base/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid {
namespace {

constexpr size_t kMostHolderBytes = 400;

std::string own_description(std::string_view purpose) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> time = {};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return cat("process ", ::getpid(), " on ", host.data(), ", started ", time.data(), " (", purpose, ")\n");
}

// What the holder has written about itself. It may be between locking and writing.
std::string holder(int fd) {
  std::string text(kMostHolderBytes, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  text = std::string(trim(text.substr(0, text.find('\n'))));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text.empty() ? "another process" : text;
}

// Whether `path` still names the open file: its former holder may have removed it in between.
bool is_file_at(int fd, const std::string& path) {
  struct stat open_file = {};
  struct stat found = {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &found) == 0 &&
         open_file.st_dev == found.st_dev && open_file.st_ino == found.st_ino;
}

// flock's result, 0 or errno.
int try_lock(int fd, int kind) {
  while (::flock(fd, kind | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// output_lock_holder locks for a moment, which must not look like another holder.
int try_lock_past_a_look(int fd) {
  constexpr int kAttempts = 4;
  constexpr std::chrono::milliseconds kPause(5);
  int code = EWOULDBLOCK;
  for (int attempt = 0; attempt < kAttempts && code == EWOULDBLOCK; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kPause);
    code = try_lock(fd, LOCK_EX);
  }
  return code;
}

}  // namespace

OutputLock::OutputLock(std::string path, std::string_view what, std::string_view purpose)
    : path_(std::move(path)) {
  while (true) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    require<OutputError>(fd_ >= 0, "cannot create ", path_, ": ", std::strerror(errno));
    const int code = try_lock_past_a_look(fd_);
    if (code == EWOULDBLOCK) {
      const std::string other = holder(fd_);
      ::close(fd_);
      throw ConfigError(cat(what, " is in use: ", other, " writes there and holds ", path_,
                            "; name another place, or wait until it has ended"));
    }
    if (code != 0) missing_ = std::strerror(code);
    if (code != 0 || is_file_at(fd_, path_)) break;
    ::close(fd_);
  }
  const std::string own = own_description(purpose);
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, own.data(), own.size(), 0) != static_cast<ssize_t>(own.size())) {
    const int code = errno;
    ::unlink(path_.c_str());
    ::close(fd_);
    throw OutputError(cat("cannot write ", path_, ": ", std::strerror(code)));
  }
}

OutputLock::~OutputLock() {
  // While it is locked: nobody else can have locked this file and rely on its name.
  if (is_file_at(fd_, path_)) ::unlink(path_.c_str());
  ::close(fd_);
}

std::optional<std::string> output_lock_holder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::optional<std::string> found;
  if (try_lock(fd, LOCK_SH) == EWOULDBLOCK) found = holder(fd);
  ::close(fd);
  return found;
}

}  // namespace braid
