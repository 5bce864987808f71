// The schedules that alternate: FThenB, 1F1B, VPP and the zero-bubble schedules on looped stages. On each
// rank they warm up with forwards, then alternate forwards with backwards, then drain, and differ in a few
// numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The sizes that determine an alternation, with the letters of the papers.
struct AlternationSizes {
  int32_t p = 1;  ///< ranks
  int32_t v = 1;  ///< chunks per rank
  int32_t m = 1;  ///< microbatches
  int32_t g = 1;  ///< microbatches that run through one chunk before the next chunk's turn
  int32_t r = 0;  ///< the rank
};

/// The numbers of one rank. Forwards, and likewise backwards, are counted over all chunks of the rank.
struct Alternation {
  int32_t warm_up = 0;  ///< forwards before the first backward; a larger number than there are means all
  int32_t fused = 0;    ///< this many backwards at the start are B, the rest I and W
  int32_t lag = 0;      ///< the number of W deferred: a W follows an I only if more would be
};

/// A row of the table of schedules.
struct AlternatingSchedule {
  std::string_view name;
  std::string_view summary;  ///< one line, for help texts
  /// The schedule for more than 1 chunk per rank; empty if this one takes any number.
  std::string_view for_more_chunks{};
  /// Whether microbatches pass the chunks in max(1, m / p) rounds of g, which is p where p divides m. If not,
  /// g is m.
  bool in_rounds = false;
  Alternation (*rule)(const AlternationSizes& sizes) = nullptr;
};

/// The table. What holds for each row (rule, bubble, peaks, source) is written there.
std::span<const AlternatingSchedule> alternating_schedules();

/// `row` on looped stages, compute actions only. Each rank runs its warm-up; then one forward while there are
/// any, one backward, and the oldest W if more than `lag` are deferred, in turn; then the W left over.
/// Forwards pass the chunks g microbatches at a time from the first to the last, backwards from the last to
/// the first. Weight gradients come in ascending order in every chunk, as long as fused backwards are the
/// first. Throws ConfigError if the shape is not valid, if it has several chunks per rank and the schedule
/// runs with one (the message names the other schedule), or if the rounds would not be equally long (the
/// message names the nearest numbers of microbatches that will do).
Schedule alternating(const AlternatingSchedule& row, const PipelineShape& shape);

}  // namespace braid::schedule
