// A file descriptor with one owner.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace braid::launch {

/// Closes its descriptor when destroyed. Empty ones hold -1.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_ = -1;
};

/// `given`, moved out of 0, 1 and 2 (which a child replaces with its own). Throws std::system_error if the
/// process has too many descriptors.
inline FileDescriptor above_standard(FileDescriptor given) {
  if (given.get() > 2) return given;
  const int moved = ::fcntl(given.get(), F_DUPFD_CLOEXEC, 3);
  if (moved < 0) throw std::system_error(errno, std::generic_category(), "fcntl");
  return FileDescriptor(moved);
}

/// The owner of `value`, a system call's result, moved above 2. Throws std::system_error naming `action` if
/// the call failed.
inline FileDescriptor take_descriptor(int value, const char* action) {
  if (value < 0) throw std::system_error(errno, std::generic_category(), action);
  return above_standard(FileDescriptor(value));
}

}  // namespace braid::launch
