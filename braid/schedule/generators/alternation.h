// What FThenB, 1F1B, VPP and the zero-bubble schedules on looped stages have in common: each rank warms up
// with forwards, then alternates forwards with backwards, then drains. They differ in four numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// The numbers of one rank. Forwards, and likewise backwards, are counted over all chunks of the rank.
struct Alternation {
  /// So many microbatches run through one chunk, then through the next; after the last chunk comes the next
  /// round. Backwards do the same from the last chunk to the first. Divides the number of microbatches.
  int32_t round = 1;
  int32_t warm_up = 0;  ///< forwards before the first backward; more than there are means all
  int32_t fused = 0;    ///< the first so many backwards are B, the rest I and W
  int32_t lag = 0;      ///< so many W are put off: the next W follows an I only if more would be
};

/// The list of one rank: the warm-up; then one forward while there are any, one backward, and the oldest W if
/// more than `lag` are put off, in turn; then the W left over. Weight gradients come in ascending order in
/// every chunk, as long as fused backwards are the first.
std::vector<Action> alternate(const PipelineShape& shape, const Alternation& rule);

/// A schedule on looped stages, with the list that `rule_of` gives for each rank. Throws ConfigError if the
/// shape is not valid.
Schedule alternating(std::string name, const PipelineShape& shape,
                     const std::function<Alternation(int32_t rank)>& rule_of);

/// Throws ConfigError that names the schedules `name` and `for_more` unless there is one chunk per rank.
void require_one_chunk(const PipelineShape& shape, std::string_view name, std::string_view for_more);

/// The microbatches of each round of the interleaved schedule `name`: m / max(1, m / p), which is p where p
/// divides m. Throws ConfigError if the shape is not valid or the rounds would not be equally long; the
/// message names the nearest numbers of microbatches that would do. Source: Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2.2, for m a multiple of p; PyTorch's Interleaved1F1B for the rest.
int32_t microbatches_per_round(const PipelineShape& shape, std::string_view name);

}  // namespace braid::schedule
