// A measured step in the Chrome trace event format, for Perfetto and chrome://tracing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/report/timeline.h"

namespace braid::report {

/// A JSON object with traceEvents. Each rank is a process with two threads: "compute" has F, B, I, W, the
/// end of the step and waits for exchanges, each preceded by its wait for input (category "wait"), and
/// "communication" has sends, receives, waits for sends and the starts of exchanges of segments. Where a rank
/// waits for exchanges, threads such as "sharding in flight" have each from its start to the end of its
/// wait, in one more thread where several are in flight at once. A flow leads from each send to the compute
/// action that uses its message; without sends, from the action that produced it. Times are in µs from the
/// earliest event on any rank, with nanosecond resolution. Throws like validate(Timeline). Source: "Trace
/// Event Format", Google, sections "Complete Events", "Metadata Events" and "Flow Events".
std::string chrome_trace(const Timeline& timeline);

/// A rank of a pipeline as the trace names it.
struct TracedRank {
  int32_t number = 0;  ///< unique among all pipelines
  std::string name;
};

struct TracedPipeline {
  Timeline timeline;
  std::vector<TracedRank> ranks{};  ///< of the timeline's
};

/// The same for several pipelines that ran together, on one clock. Throws DataError also if there are none
/// or a rank has no name.
std::string chrome_trace(std::span<const TracedPipeline> pipelines);

}  // namespace braid::report
