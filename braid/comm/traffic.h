// What a rank has sent and received: calls, messages and bytes, for comparison with a plan's formulas.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>

namespace braid::comm {

/// How often something was sent, and how many bytes in total.
struct Tally {
  int64_t count = 0;
  int64_t bytes = 0;

  friend bool operator==(const Tally&, const Tally&) = default;
};

/// Tallies by kind; kinds that did not occur have none, so equal traffic compares equal.
template <typename Kind>
struct Traffic {
  std::map<Kind, Tally> tallies;

  void add(const Kind& kind, int64_t bytes) {
    Tally& tally = tallies[kind];
    ++tally.count;
    tally.bytes += bytes;
  }

  friend bool operator==(const Traffic&, const Traffic&) = default;

  /// The traffic between two readings.
  friend Traffic operator-(const Traffic& later, const Traffic& earlier) {
    Traffic difference;
    for (const auto& [kind, tally] : later.tallies) {
      const auto before = earlier.tallies.find(kind);
      const Tally known = before == earlier.tallies.end() ? Tally{} : before->second;
      const Tally since = {.count = tally.count - known.count, .bytes = tally.bytes - known.bytes};
      if (since != Tally{}) difference.tallies.emplace(kind, since);
    }
    return difference;
  }

  /// "all_gather: 2 x, 96 bytes; barrier: 1 x, 3 bytes"
  friend std::ostream& operator<<(std::ostream& out, const Traffic& traffic) {
    const char* separator = "";
    for (const auto& [kind, tally] : traffic.tallies) {
      out << separator << kind << ": " << tally.count << " x, " << tally.bytes << " bytes";
      separator = "; ";
    }
    return out;
  }
};

}  // namespace braid::comm
