#include "braid/schedule/workload.h"

#include <cmath>
#include <optional>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {

namespace {

// Commas separate them. Nothing if one is not a finite number of at least 0.
std::optional<std::vector<double>> parse_times(std::string_view text) {
  std::vector<double> numbers;
  for (const std::string& piece : split(text, ',')) {
    const auto number = parse_double(trim(piece));
    if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

Durations parse_durations(std::string_view text, int32_t chunks_per_rank, std::string_view called) {
  std::optional<std::vector<double>> parsed = parse_times(text);
  require<ConfigError>(parsed.has_value(), called,
                       " must be 3 or 4 comma-separated numbers >= 0, as in 1,1.2,0.8 or "
                       "1,1.2,0.8,0.1; got '",
                       text, "'");
  std::vector<double>& numbers = *parsed;
  require<ConfigError>(numbers.size() == 3 || numbers.size() == 4, called,
                       " must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got ", numbers.size(), ": '", text,
                       "'");
  numbers.resize(4);
  return {.stages = {{.forward = Seconds(numbers[0] / chunks_per_rank),
                      .backward_input = Seconds(numbers[1] / chunks_per_rank),
                      .backward_weight = Seconds(numbers[2] / chunks_per_rank)}},
          .communication = Seconds(numbers[3])};
}

void set_exchanges(Durations& durations, std::string_view text, int32_t chunks_per_rank,
                   std::string_view called) {
  const std::optional<std::vector<double>> numbers = parse_times(text);
  require<ConfigError>(numbers && numbers->size() == 2, called,
                       " must be 2 comma-separated numbers >= 0, the parts of F and I, as in 0.2,0.2; got '",
                       text, "'");
  for (StageTimes& stage : durations.stages) {
    stage.forward_exchange = Seconds((*numbers)[0] / chunks_per_rank);
    stage.backward_exchange = Seconds((*numbers)[1] / chunks_per_rank);
    require<ConfigError>(
        stage.forward_exchange <= stage.forward && stage.backward_exchange <= stage.backward_input, called,
        " are parts of F and I, and must not be larger than these; got '", text, "'");
  }
}

void assume_exchanges(Durations& durations) {
  constexpr double kPart = 0.1;
  for (StageTimes& stage : durations.stages) {
    if (stage.has_exchange()) continue;
    stage.forward_exchange = kPart * stage.forward;
    stage.backward_exchange = kPart * stage.backward_input;
  }
}

}  // namespace braid::schedule
