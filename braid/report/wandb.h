// Weights & Biases' offline runs: a folder that `wandb sync` uploads. Its file has the framing of LevelDB's
// logs (with the plain CRC-32) around Record messages of wandb_internal.proto.
#pragma once

#include <cstdint>
#include <string>

#include "braid/report/append_file.h"
#include "braid/report/destination.h"
#include "braid/report/protobuf.h"

namespace braid::report {

/// Cuts data into the records of a log whose blocks of 32 KiB no record crosses.
class BlockedLog {
 public:
  /// The file's first bytes.
  static std::string header();

  /// What follows in the file for `data`. The header was written before.
  std::string records(std::string_view data);

 private:
  uint64_t position_ = header().size();
};

/// Writes <wandb_parent>/wandb/offline-run-<time>-<id>/run-<id>.wandb; the options are the run's config.
class Wandb : public Destination {
 public:
  explicit Wandb(const RunDescription& run);

  std::string describe() const override;
  void add(const LogEntry& entry, WallTime now) override;
  void finish(WallTime now) override;

 private:
  Wandb(const RunDescription& run, const std::string& id);
  /// A Record of wandb's with its number and `content` in its field `type`.
  std::string record(uint32_t type, const ProtoMessage& content);

  std::filesystem::path folder_;
  AppendFile file_;
  BlockedLog log_;
  WallTime started_;
  int64_t records_ = 0;
  int64_t entries_ = 0;
};

}  // namespace braid::report
