// The options of PaddleNLP's trainer and pretraining scripts that are no options of braid's: which of them
// its scripts may keep, and which would change the result.
#pragma once

#include <span>

#include "braid/config/option_spec.h"

namespace braid::config {

/// Each with its type and PaddleNLP's default. Some are accepted with any value, without effect (no_effect
/// says why); others with the values of `supported` alone, which ask for nothing that braid does not do
/// anyway. The rest would change the result and is rejected by `missing`.
std::span<const OptionSpec> paddlenlp_options();

}  // namespace braid::config
