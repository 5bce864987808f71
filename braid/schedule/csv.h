// A schedule as a CSV file, in the format of PyTorch's pipelining.
#pragma once

#include <string>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// One row per rank, one cell per compute action: stage, type (F, I, W, or B for a fused backward) and
/// microbatch, as in "2F0,3F0,3B0". Messages, waits and the optimizer step are left out: PyTorch's
/// "compute_only" format, which its own passes complete as ours do. Throws ConfigError if `schedule` is not
/// valid.
std::string to_csv(const Schedule& schedule);

}  // namespace braid::schedule
namespace braid::schedule {
Schedule from_csv(std::string_view text, std::string name);
}
