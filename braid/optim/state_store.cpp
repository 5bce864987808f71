#include "braid/optim/state_store.h"

#include <utility>
#include <vector>

#include "braid/tensor/memory.h"

namespace braid::optim {
namespace {

class MemoryStore final : public StateStore {
 public:
  void add(SegmentStates states) override { states_.push_back(std::move(states)); }
  void expect(size_t) override {}
  SegmentStates& take(size_t segment) override { return states_.at(segment); }
  void give_back(size_t) override {}

 private:
  std::vector<SegmentStates> states_;
};

}  // namespace

int64_t StatesSize::padded_tensor_bytes() const {
  constexpr int64_t kUnit = tensor::kAllocationUnitBytes;
  return (tensor_bytes() + kUnit - 1) / kUnit * kUnit;
}

bool is_shared(const at::Tensor& tensor) {
  return tensor.defined() && (tensor.use_count() > 1 || tensor.storage().use_count() > 1);
}

StatesSize size_of_moved(const SegmentStates& states) {
  return {.numel = states.exp_avg.numel(),
          .element_bytes = static_cast<int64_t>(states.exp_avg.element_size()),
          .has_master = states.master.defined() && !is_shared(states.master)};
}

std::unique_ptr<StateStore> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace braid::optim
