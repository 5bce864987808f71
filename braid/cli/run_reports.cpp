#include "braid/cli/run_reports.h"

#include <algorithm>

#include "braid/cli/machine.h"
#include "braid/cli/version.h"
#include "braid/config/model_config_json.h"
#include "braid/config/option_json.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

std::string_view dtype_of(const config::PretrainOptions& options) {
  if (options.bf16) return "bfloat16";
  return options.fp16 ? "float16" : "float32";
}

report::RunDescription description_of(const CommandContext& context, const config::PretrainOptions& options,
                                      const config::ModelConfig& model) {
  const fs::path output(options.output_dir);
  report::RunDescription run = {.name = options.run_name.value_or(options.output_dir),
                                .host = host_name(),
                                .version = std::string(kVersion),
                                .options = config::json_values(options),
                                .model_config = config::model_config_to_json(model, dtype_of(options)),
                                .wandb_project = lookup(context, "WANDB_PROJECT").value_or("braid"),
                                .started = std::chrono::system_clock::now()};
  run.curves_folder = options.logging_dir ? fs::path(*options.logging_dir)
                                          : output / report::default_curves_folder(run.started, run.host);
  run.wandb_parent = lookup(context, "WANDB_DIR").value_or(options.logging_dir.value_or(options.output_dir));
  return run;
}

}  // namespace

std::vector<std::string> report_destinations(const config::PretrainOptions& options) {
  if (options.report_to.empty()) return {"visualdl"};
  std::vector<std::string> result;
  const auto is_given = [&](std::string_view name) {
    return std::find(options.report_to.begin(), options.report_to.end(), name) != options.report_to.end();
  };
  for (const std::string& name : report::destination_names()) {
    if (is_given(name) || is_given("all")) result.push_back(name);
  }
  return result;
}

RunReports::RunReports(const CommandContext& context, const config::PretrainOptions& options,
                       const config::ModelConfig& model, int rank) {
  if (rank != 0) return;
  const report::RunDescription run = description_of(context, options, model);
  for (const std::string& name : report_destinations(options)) {
    destinations_.push_back(report::make_destination(name, run));
  }
}

std::vector<std::string> RunReports::describe() const {
  std::vector<std::string> lines;
  for (const auto& destination : destinations_) lines.push_back(destination->describe());
  return lines;
}

void RunReports::add(const report::LogEntry& entry) {
  for (const auto& destination : destinations_) destination->add(entry, std::chrono::system_clock::now());
}

void RunReports::finish() {
  for (const auto& destination : destinations_) destination->finish(std::chrono::system_clock::now());
}

}  // namespace braid::cli
