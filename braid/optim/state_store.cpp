#include "braid/optim/state_store.h"

#include <utility>
#include <vector>

namespace braid::optim {
namespace {

class MemoryStore final : public StateStore {
 public:
  void add(SegmentStates states) override { states_.push_back(std::move(states)); }
  SegmentStates& take(size_t segment) override { return states_.at(segment); }
  void give_back(size_t) override {}

 private:
  std::vector<SegmentStates> states_;
};

}  // namespace

std::unique_ptr<StateStore> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace braid::optim
