#include "braid/config/schedule_times.h"

#include <iterator>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/json.h"
#include "braid/config/text_file.h"
#include "braid/schedule/workload.h"

namespace braid::config {
namespace {

using schedule::Seconds;

schedule::Durations read_times(const std::string& path) {
  try {
    const nlohmann::json json = parse_json(read_text_file(path), path);
    schedule::Durations durations = {.stages = {},
                                     .communication = Seconds(json.at("communication").get<double>())};
    for (const nlohmann::json& stage : json.at("stages")) {
      schedule::StageTimes times = {.forward = Seconds(stage.at("forward").get<double>()),
                                    .backward_input = Seconds(stage.at("backward_input").get<double>()),
                                    .backward_weight = Seconds(stage.at("backward_weight").get<double>())};
      if (stage.contains("fused_backward"))
        times.fused_backward = Seconds(stage["fused_backward"].get<double>());
      times.forward_exchange = Seconds(stage.value("forward_exchange", 0.0));
      times.backward_exchange = Seconds(stage.value("backward_exchange", 0.0));
      durations.stages.push_back(times);
    }
    return durations;
  } catch (const nlohmann::json::exception&) {  // a key that is missing or of another type
    throw ConfigError(
        cat(path,
            " is not a file of stage times, as --profile_steps writes it: it needs the number "
            "communication and the list stages, each with the numbers forward, backward_input and "
            "backward_weight"));
  }
}

}  // namespace

schedule::Durations parse_schedule_times(std::string_view text, const schedule::PipelineShape& shape,
                                         std::string_view option_name) {
  constexpr std::string_view kFile = "file:";
  if (!text.starts_with(kFile)) return schedule::parse_durations(text, shape.chunks_per_rank, option_name);
  const std::string path(text.substr(kFile.size()));
  schedule::Durations durations = read_times(path);
  require<ConfigError>(std::ssize(durations.stages) == shape.stages(), option_name, " ", text,
                       " has times for ", counted(std::ssize(durations.stages), "stage"),
                       ", but the pipeline has ", shape.stages(), " (", counted(shape.ranks, "rank"), ", ",
                       counted(shape.chunks_per_rank, "chunk"), " per rank)");
  return durations;
}

std::string to_json(const schedule::Durations& durations) {
  nlohmann::ordered_json json = {{"stages", nlohmann::ordered_json::array()},
                                 {"communication", durations.communication.count()}};
  for (const schedule::StageTimes& times : durations.stages) {
    nlohmann::ordered_json stage = {{"forward", times.forward.count()},
                                    {"backward_input", times.backward_input.count()},
                                    {"backward_weight", times.backward_weight.count()}};
    if (times.fused_backward) stage["fused_backward"] = times.fused_backward->count();
    if (times.forward_exchange > Seconds(0)) stage["forward_exchange"] = times.forward_exchange.count();
    if (times.backward_exchange > Seconds(0)) stage["backward_exchange"] = times.backward_exchange.count();
    json["stages"].push_back(std::move(stage));
  }
  return json.dump(1) + "\n";
}

}  // namespace braid::config
