// The run's secret, with which ranks prove that they belong to it.
#pragma once

#include <string>

#include "braid/launch/environment.h"
#include "braid/launch/options.h"

namespace braid::launch {

/// The variable in which the ranks get it. No other user can read a process's environment; a command line,
/// all can.
inline constexpr const char* kSecretVariable = "BRAID_RUN_SECRET";

/// A shorter one could be found by trying.
inline constexpr size_t kLeastSecretCharacters = 16;

/// `bytes` random bytes of the kernel in hexadecimal.
std::string random_hex(size_t bytes);

/// The secret in a file, without surrounding white space.
/// Throws ConfigError naming the file, never its contents, if it cannot be read, belongs to another user, can
/// be read or written by others, or holds fewer than kLeastSecretCharacters characters, or more than one
/// line.
std::string read_secret_file(const std::string& path);

/// The run's secret: that of --secret_file; else BRAID_RUN_SECRET of `base`; else on one node 256 random
/// bits. Throws ConfigError like read_secret_file, for a short one, and if there is none for several nodes.
std::string choose_secret(const Environment& base, const LaunchOptions& options);

}  // namespace braid::launch
