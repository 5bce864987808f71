// The words of PaddleNLP's options tensor_parallel_config, pipeline_parallel_config and
// sharding_parallel_config.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/config/option_spec.h"
#include "braid/config/options.h"

namespace braid::config {

struct ConfigWord {
  enum class Effect : uint8_t {
    kSwitchesOverlap,  ///< acts as enable_send_recv_overlap
    kAlwaysOn,         ///< accepted, without effect
    kRejected,
  };

  std::string_view option;
  std::string_view word;
  Effect effect = Effect::kAlwaysOn;
  std::string_view reason;  ///< after "has no effect: " or "does not support it: "
};

/// All of them, grouped by option.
std::span<const ConfigWord> config_words();

/// The words of `option` that are accepted, separated by commas, for its help.
std::string accepted_words(std::string_view option);

/// Applies the words in the three options and adds to `unused` those that have no effect. Throws ConfigError,
/// naming option, word and reason, for all words at once that are unknown or not supported.
void apply_config_words(PretrainOptions& options, std::vector<NoEffect>& unused);

}  // namespace braid::config
