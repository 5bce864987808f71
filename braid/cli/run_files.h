// The files that decide a pretraining run, and what they hold.
#pragma once

#include <string>
#include <vector>

#include "braid/comm/agreement.h"
#include "braid/config/options.h"

namespace braid::cli {

/// The existing files that `options` name: token files and what lies beside them under the same prefix; the
/// model directory's configuration, weights and tokenizer; the tokenizer; the strategy, the schedule and its
/// times. In ascending order, each once. Of a name that leads to no file on this machine, the name.
std::vector<std::string> files_of(const config::PretrainOptions& options);

/// What each of these files holds (file_fingerprint), or why it cannot be read. Reads at most 32 MiB of each.
std::vector<comm::FileContent> contents_of(const std::vector<std::string>& paths);

}  // namespace braid::cli
