// Distributes rows over ATen's threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace braid::kernels::cpu {

/// Calls work(begin, end) with size_t bounds that cover [0, rows), on several threads if there is enough to
/// do.
template <typename Work>
void for_row_ranges(int64_t rows, int64_t elements_per_row, const Work& work) {
  // Below this, waking a thread costs more than it saves.
  constexpr int64_t kElements = 32768;
  const int64_t grain = std::max<int64_t>(1, kElements / std::max<int64_t>(1, elements_per_row));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    work(static_cast<size_t>(begin), static_cast<size_t>(end));
  });
}

}  // namespace braid::kernels::cpu
