// The error messages of c10d and Gloo, reduced to what is useful to people.
#pragma once

#include <exception>
#include <string>

namespace braid::comm {

/// The first line of an exception's message, without stack traces and source positions.
std::string short_reason(const std::exception& error);

}  // namespace braid::comm
