// run.json: what a run was, on what it ran, and how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "braid/comm/world.h"
#include "braid/config/model_config.h"
#include "braid/config/options.h"
#include "braid/config/run_options.h"
#include "braid/report/destination.h"

namespace braid::cli {

/// What is known before the first step.
struct RunFacts {
  const config::PretrainOptions& options;
  const config::RunOptions& run;
  const config::ModelConfig& model;
  comm::World world{};
  std::vector<std::string> hosts{};                   ///< of the ranks, each once, in the ranks' order
  std::map<std::string, std::string> fingerprints{};  ///< of what the run reads, by what it is
  int64_t cores = 1;                                  ///< that this process may use
};

/// Keeps <output_dir>/run.json: with state "running" from its construction on, with the end from finish on.
/// A file that still says "running" is that of a run that was killed, or runs. Throws OutputError if it
/// cannot be written.
class RunRecord {
 public:
  explicit RunRecord(const RunFacts& facts);
  ~RunRecord();
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  /// The mean loss of a step's tokens (part "train") or of an evaluation ("eval").
  void note_loss(const std::string& part, int64_t step, double loss);
  /// "finished", "stopped" or "failed", with the reason, as a sentence.
  void finish(const std::string& state, const std::string& reason);

 private:
  struct Content;
  void write() const;

  std::filesystem::path path_;
  std::unique_ptr<Content> content_;
};

}  // namespace braid::cli
