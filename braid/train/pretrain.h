// The pretraining job of one rank, from the options to the exported model.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "braid/comm/world.h"
#include "braid/config/model_config.h"
#include "braid/config/run_options.h"
#include "braid/report/step_metrics.h"

namespace braid::train {

/// Receives what the job reports. Called from the thread that runs it.
struct Reporter {
  /// A line of the log, without time or level.
  std::function<void(const std::string& line)> line = [](const std::string&) {};
  /// An entry of the log that consists of values. What it throws ends the run.
  std::function<void(const report::LogEntry& entry)> entry = [](const report::LogEntry&) {};
  /// After every step, for a progress bar.
  std::function<void(const report::StepMetrics& step, int64_t max_steps)> step = [](const auto&, int64_t) {};
};

struct PretrainJob {
  config::RunOptions options;
  config::ModelConfig model;
  comm::World world;
  c10::intrusive_ptr<c10d::Store> store;  ///< shared by the world's ranks
  std::string gloo_interface;             ///< GLOO_SOCKET_IFNAME, or empty
  Reporter reporter;
  std::function<bool()> stop_requested = [] { return false; };
};

struct PretrainSummary {
  int64_t steps = 0;                ///< done
  std::vector<double> losses;       ///< of each step
  std::vector<double> grad_norms;   ///< of each step
  std::vector<double> eval_losses;  ///< in the order of evaluation
  bool stopped = false;             ///< before max_steps, because some rank was asked to
};

/// Runs the job on this rank: opens the data, builds or loads this rank's stage, trains, evaluates, and
/// exports the model to <output_dir>/hf. Rank 0 writes <output_dir>/metrics.jsonl, one line a step.
/// Collective over the world, whose size is the pipeline's degree. The same losses, gradient norms and
/// weights, bit for bit, for every pipeline degree and schedule, as long as each rank has the same number of
/// compute threads. Throws what its parts throw: everything wrong with data or options before the first step.
PretrainSummary pretrain(const PretrainJob& job);

}  // namespace braid::train
