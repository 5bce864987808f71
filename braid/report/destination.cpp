#include "braid/report/destination.h"

#include <array>
#include <ctime>
#include <system_error>

#include "braid/base/error.h"
#include "braid/report/tensorboard.h"
#include "braid/report/visualdl.h"
#include "braid/report/wandb.h"

namespace braid::report {

const std::vector<std::string>& destination_names() {
  static const std::vector<std::string> names = {"visualdl", "tensorboard", "wandb"};
  return names;
}

std::unique_ptr<Destination> make_destination(std::string_view name, const RunDescription& run) {
  if (name == "visualdl") return std::make_unique<VisualDl>(run);
  if (name == "tensorboard") return std::make_unique<TensorBoard>(run);
  require<InternalError>(name == "wandb", "there is no destination ", name);
  return std::make_unique<Wandb>(run);
}

std::string options_json(const RunDescription& run) {
  std::string json = "{";
  for (const auto& [name, value] : run.options) {
    json += cat(json.size() == 1 ? "" : ",", "\n  \"", name, "\": ", value);
  }
  return json + "\n}";
}

std::string default_curves_folder(WallTime started, std::string_view host) {
  return cat("runs/", local_time_text(started, "%b%d_%H-%M-%S"), "_", host);
}

std::string local_time_text(WallTime time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local = {};
  localtime_r(&seconds, &local);
  std::array<char, 128> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &local)};
}

double unix_seconds(WallTime time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

}  // namespace braid::report
