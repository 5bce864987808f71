// The memory that a schedule requires on every rank, in bytes: determined by the order alone, before anything
// runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// What one stage keeps for one microbatch, in bytes or any other unit.
struct StageMemory {
  int64_t forward_to_backward = 1;  ///< M_B: from F until B or I has run
  int64_t backward_to_weight = 1;   ///< M_W: from I until W has run

  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

struct Memory {
  /// One element for each stage, or a single one that holds for all.
  std::vector<StageMemory> stages = {StageMemory{}};
  /// What each segment of each stage keeps, where stages are cut into them: their sums are the stage's.
  std::vector<std::vector<StageMemory>> segments{};
  /// What each layer of each stage keeps, first to last: their sums are the stage's. Empty: each the same.
  /// Only peak_memory uses it, to follow an action and its W in hand layer by layer.
  std::vector<std::vector<StageMemory>> layers{};
  /// This many correspond to 1 in the unit shown in messages.
  int64_t scale = 1;

  /// That of one stage. Not checked: there is one.
  const StageMemory& of(int32_t stage) const {
    return stages[stages.size() == 1 ? 0 : static_cast<size_t>(stage)];
  }

  friend bool operator==(const Memory&, const Memory&) = default;
};

/// `amount` of `memory` for people: a whole number where nothing is scaled, else in their unit, with six
/// digits, or as many more as needed to read back as this amount, so that a limit copied from a message
/// suffices.
std::string amount_text(const Memory& memory, int64_t amount);

/// What `action` on `rank` adds to what the rank keeps: M_B for F, M_W - M_B for I, -M_W for W, -M_B for B,
/// and nothing for the rest; of its segment if it works on one. Not checked: the action lies within the
/// shape, and the segments of a schedule that has any are given.
int64_t memory_change(const Schedule& schedule, const Memory& memory, int32_t rank, const Action& action);

/// Per rank, the most that it keeps after any of its actions, and after any layer of one with a W in hand,
/// which frees one layer of W for each of its own; if what layers keep is not given, they are all alike.
/// Throws ConfigError if the schedule is not valid, if there are neither 1 nor stages() elements, if one is
/// negative, or if a sum does not fit into 64 bits.
std::vector<int64_t> peak_memory(const Schedule& schedule, const Memory& memory);

/// How many more tensors than before `action` are on their way between stages or segments on `rank` after it:
/// received and not yet used, or made and not yet known to be sent. Not checked: as for memory_change.
int32_t handover_change(const Schedule& schedule, int32_t rank, const Action& action);

/// Per rank, the most tensors that are on their way after any of its actions. Throws ConfigError if the
/// schedule is not valid.
std::vector<int32_t> peak_handovers(const Schedule& schedule);

/// Throws ConfigError, which tells the rank and what it keeps, if one keeps more than `limit`; and as
/// peak_memory.
void require_within(const Schedule& schedule, const Memory& memory, int64_t limit);

}  // namespace braid::schedule
