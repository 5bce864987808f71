#include <ATen/ATen.h>

#include <algorithm>

#include "braid/kernels/aten/kernels.h"

namespace braid::kernels::aten {

double squared_norm(const at::Tensor& t) {
  // Small enough that ATen sums a block on one thread, and that its float64 copy stays in the cache.
  constexpr int64_t kCpuBlock = int64_t{1} << 14;
  constexpr int64_t kGpuBlock = int64_t{1} << 26;
  const int64_t block = t.is_cpu() ? kCpuBlock : kGpuBlock;
  const at::Tensor flat = t.view({-1});
  at::Tensor sum = at::zeros({}, t.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < flat.numel(); begin += block) {
    sum += flat.narrow(0, begin, std::min(block, flat.numel() - begin)).to(at::kDouble).square().sum();
  }
  return sum.item<double>();
}

}  // namespace braid::kernels::aten
