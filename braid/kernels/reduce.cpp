#include "braid/kernels/reduce.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {

void add_squares(const at::Tensor& t, ExactSum& sum) {
  require_floating(t, "the tensor of a norm");
  require<ShapeError>(t.numel() % kSquaresBlock == 0, "squares are added in blocks of ", kSquaresBlock,
                      " elements, got ", t.numel());
  const at::Tensor flat = t.view({-1});
  constexpr int64_t kAtOnce = int64_t{1} << 20;
  for (int64_t begin = 0; begin < flat.numel(); begin += kAtOnce) {
    const at::Tensor part = flat.narrow(0, begin, std::min(kAtOnce, flat.numel() - begin));
    for (const double block : cpu::handles(t) ? cpu::block_squares(part) : aten::block_squares(part)) {
      sum.add(block);
    }
  }
}

}  // namespace braid::kernels
