// Connections that the rendezvous has rejected, told without letting whoever makes them fill the log.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace braid::comm {

/// Counts rejected connections by address and reports the 1st, 10th, 100th, ... of each. Of the first
/// kMostAddresses addresses each has its own count; all others share one.
class Rejections {
 public:
  static constexpr size_t kMostAddresses = 64;

  /// `report` receives one line at a time; null: none.
  explicit Rejections(std::function<void(const std::string&)> report) : report_(std::move(report)) {}

  /// Counts one, `reason` being the rest of a sentence about the connection: "it sent no proof ...".
  void add(const std::string& address, const std::string& reason);

  /// Every address that was counted for itself, comma-separated.
  std::string addresses() const;

 private:
  struct Count {
    uint64_t seen = 0;
    uint64_t next_report = 1;
  };

  std::function<void(const std::string&)> report_;
  std::map<std::string, Count> by_address_;
  Count others_;
};

}  // namespace braid::comm
