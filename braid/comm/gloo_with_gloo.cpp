#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/backend.h"

namespace braid::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store, int index,
                                                    int size, const BackendOptions& options) {
  const auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo->threads = 1;  // a group's collectives run in order anyway
  if (options.interfaces.empty()) {
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.local_address));
  } else {
    for (const std::string& name : split(options.interfaces, ',')) {
      gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(std::string(trim(name))));
    }
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, index, size, gloo);
}

}  // namespace braid::comm
