#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/reduce.h"

namespace braid::kernels::aten {

std::vector<double> block_squares(const at::Tensor& t) {
  const at::Tensor sums = t.view({-1, kSquaresBlock}).to(at::kDouble).square().sum(1).cpu();
  const double* begin = sums.const_data_ptr<double>();
  return {begin, begin + sums.numel()};
}

}  // namespace braid::kernels::aten
