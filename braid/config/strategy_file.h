// Strategies in files, with the keys of Paddle's DistributedStrategy.
//
//   sharding: true
//   pipeline: true
//   sharding_configs: {sharding_degree: 4, mp_degree: 2, pp_degree: 4, optimize_offload: true}
//   pipeline_configs: {schedule_mode: 1F1B, micro_batch_size: 1, accumulate_steps: 4}
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/config/file_value.h"
#include "braid/config/option_spec.h"

namespace braid::config {

/// What a file says in terms of the options of `braid pretrain`, to be applied before those given beside it.
struct StrategyFile {
  std::vector<Assignment> assignments;  ///< of every option that the file decides, by key or by default
  std::vector<std::string> notes;  ///< keys without effect, and keys over which an option takes precedence
};

/// The keys, as "sharding_configs.mp_degree", with their defaults and ranges.
std::vector<OptionSpec> strategy_keys();

/// The strategy in the content of the file called `file_name`. `given` are the options given beside it;
/// `world_size` is the number of ranks if it is known. Throws ConfigError for keys that are unknown, given
/// twice, out of range or in contradiction to another one, or whose degrees do not multiply to `world_size`:
/// all of them at once, each with its line, the rule and the value.
StrategyFile translate_strategy(const FileValue& file, const std::string& file_name,
                                std::span<const Assignment> given, std::optional<int64_t> world_size);

}  // namespace braid::config
