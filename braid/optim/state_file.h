// The file of offloaded states: reserved space, mapped ranges, and transfers whose errors are exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "braid/optim/fault_guard.h"

namespace braid::optim {

class StateFile {
 public:
  /// A part of the file, mapped. Must not outlive the file.
  class Range {
   public:
    Range(const StateFile& file, int64_t offset, int64_t bytes);

    std::span<std::byte> memory() const { return mapping_.memory; }

    /// Brings the range into memory, ready to be written to. Blocks while the disk reads.
    void read() const;
    /// Releases its memory from this process and starts to write it to the disk. memory() remains valid: an
    /// access brings pages back.
    void start_writing() const;
    /// Blocks until the disk has it, and gives up the system's copy in memory.
    void finish_writing() const;
    /// Throws if the file no longer holds the range, or an access to memory() has failed.
    void check() const;

   private:
    struct Mapping {
      explicit Mapping(std::span<std::byte> mapped) : memory(mapped) {}
      ~Mapping();
      Mapping(const Mapping&) = delete;
      Mapping& operator=(const Mapping&) = delete;
      std::span<std::byte> memory;
    };
    int64_t bytes() const { return static_cast<int64_t>(mapping_.memory.size()); }

    const StateFile& file_;
    int64_t offset_;
    Mapping mapping_;
    FaultGuard guard_;  // after the mapping, which it must not outlive
  };

  /// Creates a file in `directory` and removes its name. Throws OutputError naming the directory and the
  /// reason if that is not possible.
  StateFile(const std::string& directory, int32_t rank);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  /// Reserves space for `bytes` in total: later writes to them cannot fail for lack of space, except in file
  /// systems that write to copies (btrfs, ZFS). Throws OutputError with the bytes needed and the bytes free.
  void reserve(int64_t bytes);

  /// Where the next `bytes`, rounded up to pages, begin; reserves them.
  int64_t append(int64_t bytes);

 private:
  std::string path_;  // that it had; for messages
  int fd_ = -1;
  int64_t reserved_bytes_ = 0;
  int64_t appended_bytes_ = 0;
};

/// `bytes` rounded up to whole pages of memory.
int64_t whole_pages(int64_t bytes);

}  // namespace braid::optim
