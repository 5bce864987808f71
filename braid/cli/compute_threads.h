// The threads that compute.
#pragma once

#include <cstdint>

namespace braid::cli {

/// Makes operations of this process use `count` threads, which are started now: where that fails later, the
/// OpenMP library ends the process. Throws std::system_error if the system does not allow so many.
void start_compute_threads(int64_t count);

}  // namespace braid::cli
