#include "braid/cli/run_record.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "braid/base/text.h"
#include "braid/checkpoint/file.h"
#include "braid/cli/build_info.h"
#include "braid/config/model_config_json.h"
#include "braid/config/option_json.h"

namespace braid::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string now_text() {
  return report::local_time_text(std::chrono::system_clock::now(), "%Y-%m-%dT%H:%M:%S%z");
}

// "model name" of /proc/cpuinfo, which not every architecture has.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    return std::string(trim(line.substr(std::min(line.find(':') + 1, line.size()))));
  }
  return "unknown";
}

int64_t memory_bytes() {
  struct sysinfo info = {};
  return ::sysinfo(&info) == 0 ? static_cast<int64_t>(info.totalram) * info.mem_unit : 0;
}

Json options_of(const config::PretrainOptions& options) {
  Json json = Json::object();
  for (const auto& [name, value] : config::json_values(options)) json[name] = Json::parse(value);
  return json;
}

Json strategy_of(const config::Strategy& strategy) {
  const mesh::MeshShape& mesh = strategy.mesh;
  return {{"mp", mesh.mp},
          {"sharding", mesh.sharding},
          {"pp", mesh.pp},
          {"dp", mesh.dp},
          {"sharding_stage", strategy.sharding_stage},
          {"schedule", strategy.schedule ? "of a file" : strategy.schedule_mode},
          {"chunks_per_rank", strategy.chunks_per_rank}};
}

Json build_of(const BuildInfo& info) {
  Json features = Json::object();
  for (const BuildFeature& feature : info.features) features[feature.name] = feature.is_built_in;
  return {{"braid", info.version},
          {"libtorch", info.libtorch},
          {"compiler", info.compiler},
          {"build_type", info.build_type},
          {"features", features}};
}

Json machine_of(const RunFacts& facts) {
  return {{"processor", processor_name()},
          {"cores", facts.cores},
          {"memory_bytes", memory_bytes()},
          {"ranks", facts.world.world_size},
          {"ranks_here", facts.world.local_world_size},
          {"hosts", facts.hosts},
          {"process", ::getpid()}};
}

Json loss_of(int64_t step, double loss) {
  return {{"global_step", step}, {"loss", loss}};  // a loss that is no number becomes null
}

}  // namespace

struct RunRecord::Content {
  Json json;
};

RunRecord::RunRecord(const RunFacts& facts)
    : path_(std::filesystem::path(facts.options.output_dir) / "run.json"),
      content_(std::make_unique<Content>()) {
  content_->json = {{"state", "running"},
                    {"reason", nullptr},
                    {"started", now_text()},
                    {"ended", nullptr},
                    {"steps", 0},
                    {"max_steps", facts.run.training.max_steps},
                    {"losses", Json::object()},
                    {"seed", facts.run.seed},
                    {"data_seed", facts.run.data_seed},
                    {"build", build_of(build_info())},
                    {"machine", machine_of(facts)},
                    {"strategy", strategy_of(facts.run.strategy)},
                    {"model", Json::parse(config::model_config_to_json(facts.model, "float32"))},
                    {"fingerprints", facts.fingerprints},
                    {"options", options_of(facts.options)}};
  write();
}

RunRecord::~RunRecord() = default;

void RunRecord::note_loss(const std::string& part, int64_t step, double loss) {
  content_->json["steps"] = step;
  Json& losses = content_->json["losses"][part];
  losses["final"] = loss_of(step, loss);
  const bool is_best =
      std::isfinite(loss) && (!losses.contains("best") || loss < losses["best"]["loss"].get<double>());
  if (is_best) losses["best"] = loss_of(step, loss);
}

void RunRecord::finish(const std::string& state, const std::string& reason) {
  content_->json["state"] = state;
  content_->json["reason"] = reason;
  content_->json["ended"] = now_text();
  write();
}

void RunRecord::write() const {
  checkpoint::write_text_file(
      path_, content_->json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace braid::cli
