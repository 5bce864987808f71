#include "braid/schedule/workload.h"

#include <cmath>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {

Durations parse_durations(std::string_view text, int32_t chunks_per_rank, std::string_view called) {
  std::vector<double> numbers;
  for (const std::string& piece : split(text, ',')) {
    const auto number = parse_double(trim(piece));
    const bool is_time = number && std::isfinite(*number) && *number >= 0;
    require<ConfigError>(is_time, called,
                         " must be 3 or 4 comma-separated numbers >= 0, as in 1,1.2,0.8 or "
                         "1,1.2,0.8,0.1; got '",
                         text, "'");
    numbers.push_back(*number);
  }
  require<ConfigError>(numbers.size() == 3 || numbers.size() == 4, called,
                       " must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got ", numbers.size(), ": '", text,
                       "'");
  numbers.resize(4);
  return {.stages = {{.forward = Seconds(numbers[0] / chunks_per_rank),
                      .backward_input = Seconds(numbers[1] / chunks_per_rank),
                      .backward_weight = Seconds(numbers[2] / chunks_per_rank)}},
          .communication = Seconds(numbers[3])};
}

}  // namespace braid::schedule
