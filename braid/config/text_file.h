// Reading small text files.
#pragma once

#include <string>

namespace braid::config {

/// The content of the file. Throws ConfigError, naming the file and the cause, if it cannot be read, is not a
/// regular file or is larger than 64 MiB: option files and model configurations are small.
std::string read_text_file(const std::string& path);

}  // namespace braid::config
