// The destinations of a run's curves, as the options name them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "braid/cli/run.h"
#include "braid/config/model_config.h"
#include "braid/config/options.h"
#include "braid/report/destination.h"

namespace braid::cli {

/// The destinations that --report_to names, each once; visualdl where it is not given, as in PaddleNLP.
std::vector<std::string> report_destinations(const config::PretrainOptions& options);

/// Those of rank 0; the other ranks have none. Throws OutputError if a file cannot be created or written.
class RunReports {
 public:
  RunReports(const CommandContext& context, const config::PretrainOptions& options,
             const config::ModelConfig& model, int rank);

  /// A line for each: where it is.
  std::vector<std::string> describe() const;
  void add(const report::LogEntry& entry);
  /// The run has ended as it should.
  void finish();

 private:
  std::vector<std::unique_ptr<report::Destination>> destinations_;
};

}  // namespace braid::cli
