#include "braid/comm/work.h"

#include <utility>

#include "braid/comm/operation.h"

namespace braid::comm {

at::Tensor Work::wait() {
  if (!operation_) return {};
  const std::shared_ptr<detail::Operation> operation = std::exchange(operation_, nullptr);
  return operation->wait();
}

}  // namespace braid::comm
