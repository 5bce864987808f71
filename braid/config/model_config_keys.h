// The keys of config.json beyond those of ModelConfig: which of them change what a model computes.
// Included by source files only: the JSON library's header is large.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "braid/config/json.h"

namespace braid::config {

/// Throws ConfigError, with the names, unless `config`, the object of the file `where`, is a Llama's: by
/// model_type and architectures. For architectures close to Llama, the message says what differs.
void require_llama(const nlohmann::json& config, std::string_view where);

/// The keys of `config` that ModelConfig has no field for and that have no effect on what is computed, with
/// their values as JSON, to be written again by an export. Throws ConfigError for a setting with an effect
/// that braid does not have, and for unknown keys, of which that cannot be said; the message names key and
/// value, the reason, and what to do.
std::map<std::string, std::string> other_keys(const nlohmann::json& config, std::string_view where);

}  // namespace braid::config
