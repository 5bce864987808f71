// A measured step in the Chrome trace event format, for Perfetto and chrome://tracing.
#pragma once

#include <string>

#include "braid/report/timeline.h"

namespace braid::report {

/// A JSON object with traceEvents. Each rank is a process with two threads: "compute" has F, B, I, W and the
/// optimizer step, each preceded by its wait for input (category "wait"), and "communication"
/// has sends, receives and waits for sends. A flow leads from each send to the compute action that uses its
/// message; without sends, from the action that produced it. Times are in µs from the earliest event on any
/// rank, with nanosecond resolution.
/// Throws like validate(Timeline). Source: "Trace Event Format", Google, sections "Complete Events",
/// "Metadata Events" and "Flow Events".
std::string chrome_trace(const Timeline& timeline);

}  // namespace braid::report
