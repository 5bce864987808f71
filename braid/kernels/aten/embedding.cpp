#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"

namespace braid::kernels::aten {

void embedding_backward(const at::Tensor& tokens, const at::Tensor& dy, const at::Tensor& main_grad,
                        Accumulate mode) {
  if (mode == Accumulate::kOverwrite) main_grad.zero_();
  const at::Tensor wide_dy = dy.to(main_grad.scalar_type());
  if (main_grad.is_cpu()) {
    main_grad.index_add_(0, tokens, wide_dy);  // one row after another
  } else {
    main_grad.index_put_({tokens}, wide_dy,
                         /*accumulate=*/true);  // sorts first, so it is deterministic; index_add_ is not
  }
}

}  // namespace braid::kernels::aten
