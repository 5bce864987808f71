#include "braid/base/error.h"
#include "braid/comm/backend.h"

namespace braid::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                    int /*index*/, int /*size*/,
                                                    const BackendOptions& /*options*/) {
  throw ConfigError(
      "this braid was built without Gloo, so CPU ranks cannot communicate: install libgloo-dev and build "
      "with "
      "-DBRAID_WITH_GLOO=ON, or use --device cuda");
}

}  // namespace braid::comm
