// A schedule drawn with characters: one row per rank, time from left to right.
#pragma once

#include <cstdint>
#include <string>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

enum class Colours {
  kNone,
  kAnsi,  // escape sequences: forward blue, input gradient green, weight gradient yellow
};

struct DrawOptions {
  Colours colours = Colours::kNone;
  /// A longer drawing continues below, in a second band. At least 40.
  int32_t columns = 100;
};

/// The compute actions of `schedule` to scale, where F, I and W take one slot each, a fused B two, and
/// messages none; above it name, sizes and a ruler of slots, below it a legend, the bubble and the peak of
/// live activations per rank. Where the schedule ends the step, which takes no slot, a line says when each
/// rank's first UPDATE occurs and how many slots lie between consecutive steps. With several chunks per rank,
/// a letter before the action gives the chunk: aF0 is the first chunk's. Throws ConfigError if `schedule` is
/// not valid or gets stuck, if columns < 40, or if it has too many slots to draw.
std::string draw_text(const Schedule& schedule, const DrawOptions& options);

}  // namespace braid::schedule
