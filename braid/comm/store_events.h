// The log of a run's beginning, kept in its store: which ranks have arrived, and what was found to be wrong.
// Rank 0 reads it in order, so a fault that any rank finds reaches all of them at once.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <variant>

namespace braid::comm {

/// The key with the addresses of connections that were rejected, if there were any.
inline constexpr const char* kRejectedKey = "braid/rejected";

struct Arrival {
  int rank = 0;
};
struct Fault {
  std::string text;
};
using Event = std::variant<Arrival, Fault>;

/// Adds an event to the log of `store`. From any rank.
void post_arrival(c10d::Store& store, int rank);
void post_fault(c10d::Store& store, const std::string& text);

/// Event `number` (from 1), or nothing if there are fewer after `timeout`.
std::optional<Event> wait_for_event(c10d::Store& store, int64_t number, std::chrono::milliseconds timeout);

}  // namespace braid::comm
