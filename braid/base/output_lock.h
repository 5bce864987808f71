// Keeps a second process from writing where one writes already.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace braid {

/// A lock file, held from construction to destruction and released by the kernel when the process dies in any
/// way. Removed by the destructor; one that a killed process has left behind holds nobody up.
///
/// The lock is flock's: it holds among all processes of a machine, on NFS (Linux, with a lock manager) and on
/// parallel file systems that are mounted with it also among machines.
class OutputLock {
 public:
  /// Locks the file `path`, creating it in a directory that exists, and writes into it who this is: process,
  /// host, the time and `purpose`, a few words. Does not wait for a holder to end.
  ///
  /// Throws ConfigError, beginning with `what` ("--output_dir out") and naming the holder, if another process
  /// holds the lock; OutputError naming path and reason if the file cannot be created or written.
  OutputLock(std::string path, std::string_view what, std::string_view purpose);
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  ~OutputLock();

  /// The system's reason if the file system cannot lock files: then nothing keeps a second process away.
  const std::optional<std::string>& missing() const { return missing_; }

 private:
  std::string path_;
  int fd_ = -1;
  std::optional<std::string> missing_;
};

/// Who holds the lock file `path`, as it says itself; nothing if nobody does.
std::optional<std::string> output_lock_holder(const std::string& path);

}  // namespace braid
