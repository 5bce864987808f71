// Reading small text files.
#pragma once

#include <string>

namespace braid::config {

/// The content of the file. Throws ConfigError, which names the file and the cause, if it cannot be read, is
/// not a plain file or is larger than 64 MiB: files of options and model configurations are small.
std::string read_text_file(const std::string& path);

}  // namespace braid::config
