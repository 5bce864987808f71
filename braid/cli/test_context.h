// Calls a command in a test and captures its output.
#pragma once

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "braid/cli/run.h"

namespace braid::cli {

struct CallOptions {
  std::map<std::string, std::string> environment{};
  std::optional<int64_t> out_columns{};
  std::optional<int64_t> err_columns{};
};

struct CallResult {
  int code = 0;
  std::string out{};
  std::string err{};
};

/// `braid <arguments>` within this process.
inline CallResult call(std::vector<std::string> arguments, const CallOptions& options = {}) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run({.arguments = std::move(arguments),
                        .program = "/bin/false",
                        .environment = options.environment,
                        .out = out,
                        .err = err,
                        .out_columns = options.out_columns,
                        .err_columns = options.err_columns,
                        .cores = 2});
  return {code, out.str(), err.str()};
}

}  // namespace braid::cli
