#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "braid/comm/backend.h"

namespace braid::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int index,
                                                    int size, const BackendOptions& options) {
  const auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = options.timeout;
  nccl->is_high_priority_stream = true;  // messages must not queue behind a long kernel
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, index, size, nccl);
}

}  // namespace braid::comm
