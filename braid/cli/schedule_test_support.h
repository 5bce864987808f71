// Shared by the tests of `braid schedule`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "braid/cli/test_context.h"

namespace braid::cli {

/// `braid schedule <command> <arguments>` within this process.
inline CallResult schedule(const std::string& command, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"schedule", command});
  return call(std::move(arguments));
}

}  // namespace braid::cli
