// How often and how much a layer communicates within its tensor-parallel (mp) group.
#pragma once

#include "braid/comm/communicator.h"

namespace braid::layers {

/// Calls, and bytes that one rank sends, per microbatch; empty in a group of one.
struct MpMessages {
  comm::CollectiveTraffic forward;          ///< F of training; without a record, a loss layer sends less
  comm::CollectiveTraffic recompute;        ///< Layer::recompute
  comm::CollectiveTraffic backward_input;   ///< B
  comm::CollectiveTraffic backward_weight;  ///< W
  comm::CollectiveTraffic backward;         ///< Layer::backward, which may be less than B and W
  bool operator==(const MpMessages&) const = default;
};

/// Adds `more` to `sum`.
inline void add_traffic(comm::CollectiveTraffic& sum, const comm::CollectiveTraffic& more) {
  for (const auto& [collective, tally] : more.tallies) {
    sum.tallies[collective].count += tally.count;
    sum.tallies[collective].bytes += tally.bytes;
  }
}

}  // namespace braid::layers
