// What c10d and Gloo say when something fails, cut down to what a person can use.
#pragma once

#include <exception>
#include <string>

namespace braid::comm {

/// The first line of an exception's message, without stack traces and source positions.
std::string short_reason(const std::exception& error);

}  // namespace braid::comm
