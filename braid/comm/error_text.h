// The error messages of c10d and Gloo, reduced to what is useful to people.
#pragma once

#include <exception>
#include <string>

namespace braid::comm {

/// What an exception of c10d or Gloo means, for the end of a sentence: known messages in braid's words
/// ("10.0.0.2 has closed the connection"), of others the first line, quoted as libtorch's, without stack
/// traces, source positions and control characters. Exceptions of braid keep their text.
std::string short_reason(const std::exception& error);

/// From now on, libtorch's own log lines below fatal ones stay out of standard error: what they report
/// reaches people through exceptions. For the program's start; a level that the environment sets
/// (TORCH_CPP_LOG_LEVEL) is the caller's to respect.
void silence_library_log();

}  // namespace braid::comm
