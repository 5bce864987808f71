// TensorBoard's event files: TFRecords that hold Event messages of tensorflow/core/util/event.proto.
#pragma once

#include <string>

#include "braid/report/append_file.h"
#include "braid/report/destination.h"

namespace braid::report {

/// The record of a TFRecord file that holds `data`: its length and itself, each followed by its masked
/// CRC-32C.
std::string tf_record(std::string_view data);

/// Writes <curves_folder>/events.out.tfevents.<time>.<host>.<process>.0; the options and the model are the
/// texts args and model_config.
class TensorBoard : public Destination {
 public:
  explicit TensorBoard(const RunDescription& run);

  std::string describe() const override;
  void add(const LogEntry& entry, WallTime now) override;

 private:
  AppendFile file_;
};

}  // namespace braid::report
