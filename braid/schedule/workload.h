// What a schedule is made for: how long its parts take, what they keep, and how much a rank may keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {

/// Fixed schedules do not look at it; ZBVPP, V-Half, V-Min and auto arrange their actions for these times,
/// and ZBVPP and auto within the limit.
struct Workload {
  Durations durations{};
  Memory memory{};
  /// The most that any rank may keep, in the unit of `memory`.
  std::optional<int64_t> memory_limit{};

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// Durations from text: what a rank's whole part of the model takes for F, I and W of one microbatch, and a
/// message (0 if left out), as "1,1.2,0.8" or "1,1.2,0.8,0.1" in any unit. Each of the rank's
/// `chunks_per_rank` stages gets an equal share of the first three. Throws ConfigError, which shows `text`,
/// unless it is such numbers, finite and not negative.
Durations parse_durations(std::string_view text, int32_t chunks_per_rank, std::string_view called = "times");

/// Sets the exchanges within F and I of all stages from text: what they take of a rank's whole part of the
/// model, as "0.2,0.2", in the unit of `durations`, in which each of the rank's `chunks_per_rank` stages has
/// an equal share. Throws ConfigError, which shows `text`, unless it is 2 numbers, finite and not negative,
/// and no larger than what they are a part of.
void set_exchanges(Durations& durations, std::string_view text, int32_t chunks_per_rank,
                   std::string_view called = "exchanges");

/// Sets the exchanges within F and I of each stage that has none to a tenth of F and of I: a guess, for times
/// that nobody has measured. place_weights_in_hand never makes a step longer than planned, whatever the part;
/// a larger one only lets it choose more.
void assume_exchanges(Durations& durations);

}  // namespace braid::schedule
