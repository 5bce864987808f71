// For tests that hold allocated memory against a plan.
#pragma once

#include <cstdint>

namespace braid::train {

/// Bytes allocated now beyond `before`. A collective's thread lets go of its tensors a moment after the wait
/// for it has returned: as long as there are more than `expected`, this waits, at most 5 seconds.
int64_t settled_bytes(int64_t before, int64_t expected);

}  // namespace braid::train
