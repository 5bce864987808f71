#include "braid/cli/compute_threads.h"

#include <ATen/Parallel.h>

#include <latch>
#include <thread>
#include <vector>

namespace braid::cli {
namespace {

// Starts and ends as many threads at a time. Throws std::system_error if there cannot be so many.
void try_threads(int64_t count) {
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  struct Release {
    std::latch& latch;
    ~Release() { latch.count_down(); }
  } const release{all_started};  // destroyed before the threads, which it lets end
  for (int64_t i = 0; i < count; ++i) threads.emplace_back([&] { all_started.wait(); });
}

}  // namespace

void start_compute_threads(int64_t count) {
  // Of the others, one more than are needed: OpenMP's take a little more than those of the standard library.
  if (count > 1) try_threads(count);
  at::set_num_threads(static_cast<int>(count));
  at::parallel_for(0, count, 1, [](int64_t, int64_t) {});
}

}  // namespace braid::cli
