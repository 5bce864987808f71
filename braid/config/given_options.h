// The options that a command line of `braid pretrain` and its FILE give, before they mean anything.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "braid/config/error_list.h"
#include "braid/config/option_spec.h"

namespace braid::config {

struct GivenOptions {
  /// Of the table's options, under their own names; those of FILE first, so that flags override them.
  std::vector<Assignment> assignments;
  /// PaddleNLP's other options with values that change nothing.
  std::vector<NoEffect> unused;
  /// False if FILE could not be read: what it would have said is not known.
  bool is_complete = true;
};

/// The options in `arguments`, [FILE] and flags in any order. Adds to `errors` what is unknown, given twice
/// or misplaced, PaddleNLP's options that would change the result, and what is wrong with FILE.
GivenOptions given_options(std::span<const std::string> arguments, std::span<const OptionSpec> specs,
                           ErrorList& errors);

/// Adds to `errors` the errors that `act` throws as ConfigError, without those that speak of an option about
/// which there is an error already: they are its consequences.
void attempt_unexplained(ErrorList& errors, const std::function<void()>& act);

}  // namespace braid::config
