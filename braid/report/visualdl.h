// VisualDL's log files: messages of its record.proto, each after its length.
#pragma once

#include <string>

#include "braid/report/append_file.h"
#include "braid/report/destination.h"

namespace braid::report {

/// Writes <curves_folder>/vdlrecords.<time>.log; the options and the model are the texts args and
/// model_config.
class VisualDl : public Destination {
 public:
  explicit VisualDl(const RunDescription& run);

  std::string describe() const override;
  void add(const LogEntry& entry, WallTime now) override;

 private:
  AppendFile file_;
};

}  // namespace braid::report
