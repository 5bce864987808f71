#include "braid/base/error.h"
#include "braid/comm/backend.h"

namespace braid::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                    int /*index*/, int /*size*/,
                                                    const BackendOptions& /*options*/) {
  throw ConfigError("this braid was built without CUDA: build with -DBRAID_CUDA=ON, or use --device cpu");
}

}  // namespace braid::comm
