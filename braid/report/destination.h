// Where a run's curves go besides metrics.jsonl.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "braid/report/log_entry.h"

namespace braid::report {

using WallTime = std::chrono::system_clock::time_point;

/// What a destination tells of a run besides its values.
struct RunDescription {
  std::string name{};                                          ///< for people
  std::string host{};                                          ///< this machine's name
  std::string version{};                                       ///< braid's
  std::vector<std::pair<std::string, std::string>> options{};  ///< every option's name and its value as JSON
  std::string model_config{};                                  ///< as JSON; may be empty
  std::filesystem::path curves_folder{};                       ///< of TensorBoard's and VisualDL's files
  std::filesystem::path wandb_parent{};                        ///< of the folder "wandb"
  std::string wandb_project{};
  WallTime started{};
};

/// One of them. Each call writes whole records to the system before it returns, and throws OutputError,
/// naming the file, if it cannot.
class Destination {
 public:
  virtual ~Destination() = default;

  /// "TensorBoard: out/runs/...", for the log.
  virtual std::string describe() const = 0;
  /// Every metric of the entry, under its curve_name, at the entry's step.
  virtual void add(const LogEntry& entry, WallTime now) = 0;
  /// The run has ended as it should.
  virtual void finish(WallTime /*now*/) {}
};

/// Names of destinations: "visualdl", "tensorboard", "wandb".
const std::vector<std::string>& destination_names();

/// Creates the destination `name`, its folders and files, and writes the description. Throws InternalError
/// for unknown names, OutputError if something cannot be created.
std::unique_ptr<Destination> make_destination(std::string_view name, const RunDescription& run);

/// The options as a JSON object, one a line.
std::string options_json(const RunDescription& run);

/// The folder of TensorBoard's and VisualDL's files unless logging_dir is given, below output_dir, as
/// PaddleNLP names it: "runs/Dec03_14-05-09_host", in local time.
std::string default_curves_folder(WallTime started, std::string_view host);

/// `time` in local time, as strftime formats it.
std::string local_time_text(WallTime time, const char* format);

/// Seconds since 1970, with their fraction.
double unix_seconds(WallTime time);

}  // namespace braid::report
