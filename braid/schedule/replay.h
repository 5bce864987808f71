// Runs ordered lists, one per rank, together until all are done or none can continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace braid::schedule {

/// The position of each rank while lists are run together.
///
/// Whether an action may run must depend only on things that, once true, stay true. Then the order in which
/// ranks get their turns does not matter: if one order completes all lists, every order does, and if one gets
/// stuck, every order gets stuck at the same positions.
class Replay {
 public:
  explicit Replay(std::vector<size_t> lengths)
      : lengths_(std::move(lengths)),
        positions_(lengths_.size(), 0),
        blocked_on_(lengths_.size()),
        waiters_(lengths_.size()),
        is_ready_(lengths_.size(), true) {
    // The first rank is on top of the stack: it can start.
    for (size_t i = lengths_.size(); i > 0; --i) ready_.push_back(static_cast<int32_t>(i - 1));
  }

  /// Gives turns until no rank can continue. `try_action(rank, position)` runs the action there and returns
  /// nothing, or changes nothing and returns the rank that must continue first (itself, if nothing can help).
  template <typename TryAction>
  void run(TryAction&& try_action) {
    while (!ready_.empty()) {
      const int32_t rank = ready_.back();
      const auto row = static_cast<size_t>(rank);
      ready_.pop_back();
      is_ready_[row] = false;
      blocked_on_[row].reset();
      const size_t before = positions_[row];
      while (positions_[row] < lengths_[row]) {
        blocked_on_[row] = try_action(rank, positions_[row]);
        if (blocked_on_[row]) break;
        ++positions_[row];
      }
      if (positions_[row] != before) {
        for (const int32_t waiter : waiters_[row]) wake(waiter);
        waiters_[row].clear();
      }
      if (blocked_on_[row]) waiters_[static_cast<size_t>(*blocked_on_[row])].push_back(rank);
    }
  }

  /// Gives `rank` a turn again in the next run, after the caller has changed what it was blocked on.
  void wake(int32_t rank) {
    if (is_ready_[static_cast<size_t>(rank)]) return;
    is_ready_[static_cast<size_t>(rank)] = true;
    ready_.push_back(rank);
  }

  size_t position(int32_t rank) const { return positions_[static_cast<size_t>(rank)]; }

  /// Every cycle of blocked ranks, each rank waiting for the one after it and the last for the first. Only
  /// after a run.
  std::vector<std::vector<int32_t>> cycles() const {
    std::vector<std::vector<int32_t>> result;
    std::vector<int32_t> seen_from(lengths_.size(), -1);
    for (int32_t start = 0; start < std::ssize(lengths_); ++start) {
      int32_t rank = start;
      while (seen_from[static_cast<size_t>(rank)] < 0) {
        seen_from[static_cast<size_t>(rank)] = start;
        if (!blocked_on_[static_cast<size_t>(rank)]) break;
        rank = *blocked_on_[static_cast<size_t>(rank)];
      }
      // Back at a rank first seen on this walk: that rank lies on a cycle, new because older ranks were seen
      // before.
      if (!blocked_on_[static_cast<size_t>(rank)] || seen_from[static_cast<size_t>(rank)] != start) continue;
      std::vector<int32_t> cycle = {rank};
      for (int32_t next = *blocked_on_[static_cast<size_t>(rank)]; next != rank;
           next = *blocked_on_[static_cast<size_t>(next)]) {
        cycle.push_back(next);
      }
      result.push_back(std::move(cycle));
    }
    return result;
  }

  /// The rank that `rank` waits for; nothing if it is done. Only after a run.
  std::optional<int32_t> blocked_on(int32_t rank) const { return blocked_on_[static_cast<size_t>(rank)]; }

  /// The first rank whose list is not done.
  std::optional<int32_t> first_stuck() const {
    for (size_t i = 0; i < lengths_.size(); ++i) {
      if (positions_[i] < lengths_[i]) return static_cast<int32_t>(i);
    }
    return std::nullopt;
  }

 private:
  std::vector<size_t> lengths_;
  std::vector<size_t> positions_;
  std::vector<std::optional<int32_t>> blocked_on_;
  std::vector<std::vector<int32_t>> waiters_;
  std::vector<int32_t> ready_;
  std::vector<char> is_ready_;
};

}  // namespace braid::schedule
