// The values of options as JSON.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/config/option_spec.h"
#include "braid/config/options.h"

namespace braid::config {

/// Each option's name with its value as JSON text: a number, true or false, a string; an array for lists;
/// null where unset. `values` are texts as OptionTable::values returns them.
std::vector<std::pair<std::string, std::string>> json_values(
    std::span<const OptionSpec> specs, std::span<const std::vector<std::string>> values);

/// The same for every option of `braid pretrain`.
std::vector<std::pair<std::string, std::string>> json_values(const PretrainOptions& options);

}  // namespace braid::config
