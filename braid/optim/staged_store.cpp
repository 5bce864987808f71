#include "braid/optim/staged_store.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/tensor/memory.h"

namespace braid::optim {
namespace {

/// A place on the device for a segment's states; segment i uses slot i modulo the number of slots.
struct Slot {
  explicit Slot(at::Device device) : loaded(device.type()), updated(device.type()), stored(device.type()) {}
  at::Tensor memory;
  std::optional<size_t> holds;
  SegmentStates* in_host = nullptr;    // of that segment, taken from the other store
  c10::Event loaded, updated, stored;  // used only on devices with streams; stored also when allocated
};

struct StagedSegment {
  StatesSize size;
  at::ScalarType dtype;
  SegmentStates states;  // views of its slot, and a master that is not offloaded
};

/// In pinned memory three, as one segment is being updated, one is on its way to the device and one on its
/// way back, in both directions at once. From and to pageable memory the host does one after the other.
size_t slots_of(HostMemory host) { return host == HostMemory::kPinned ? 3 : 1; }

/// Streams for the two directions, on devices that have streams.
struct CopyStreams {
  explicit CopyStreams(at::Device device)
      : impl(device.type()),
        load(impl.getStreamFromGlobalPool(device.has_index() ? device : impl.getDevice())),
        store(impl.getStreamFromGlobalPool(load.device())) {}
  c10::Stream compute() const { return impl.getStream(load.device()); }

  c10::impl::VirtualGuardImpl impl;
  c10::Stream load, store;
};

class StagedStore final : public StateStore {
 public:
  StagedStore(const StagedStoreOptions& options, std::unique_ptr<StateStore> host)
      : options_(options), host_(std::move(host)) {
    if (!options_.device.is_cpu()) streams_.emplace(options_.device);
  }

  void add(SegmentStates states) override {
    require<InternalError>(!used_, "states are added after some have been taken");
    StagedSegment& segment = segments_.emplace_back(
        StagedSegment{.size = size_of_moved(states), .dtype = states.exp_avg.scalar_type(), .states = {}});
    if (!segment.size.has_master) segment.states.master = std::exchange(states.master, at::Tensor());
    host_->add(std::move(states));
    if (slots_.size() < max_slots() || segment.size.padded_bytes() > slots_[0].memory.numel()) {
      allocate_slots();
    } else {
      bind(segments_.size() - 1);
    }
  }

  void expect(size_t index) override {
    const bool slot_in_use = taken_ && slot_of(index).holds == taken_;
    if (options_.host == HostMemory::kPageable) {
      host_->expect(index);  // to load it would mean to wait
    } else if (!slot_in_use) {
      load(index);
    }
  }

  SegmentStates& take(size_t index) override {
    require<InternalError>(!taken_, "segment ", index, " of the states is taken while another is");
    load(index);
    // Pageable memory is read ahead by the other store, if it has to be.
    if (options_.host == HostMemory::kPinned && index + 1 < segments_.size()) load(index + 1);
    if (streams_) slot_of(index).loaded.block(streams_->compute());
    taken_ = index;
    return segments_[index].states;
  }

  void give_back(size_t index) override {
    require<InternalError>(taken_ == index, "segment ", index, " of the states was not taken");
    taken_.reset();
    Slot& slot = slot_of(index);
    {
      std::optional<c10::StreamGuard> guard;
      if (streams_) {
        slot.updated.record(streams_->compute());
        slot.updated.block(streams_->store);
        guard.emplace(streams_->store);
      }
      copy(segments_[index].states, *slot.in_host);
      if (streams_) slot.stored.record(streams_->store);
    }
    slot.holds.reset();
    host_->give_back(index);
  }

 private:
  size_t max_slots() const { return slots_of(options_.host); }

  Slot& slot_of(size_t index) {
    require<InternalError>(index < segments_.size(), "there is no segment ", index, " of the states, only ",
                           segments_.size());
    return slots_[index % max_slots()];
  }

  /// Slots for the largest segment, in place of those that were too small or too few and not in use yet.
  void allocate_slots() {
    int64_t bytes = 0;
    for (StagedSegment& segment : segments_) {
      bytes = std::max(bytes, segment.size.padded_bytes());
      segment.states.exp_avg.reset();
      segment.states.exp_avg_sq.reset();
      if (segment.size.has_master) segment.states.master.reset();
    }
    slots_.clear();
    for (size_t i = 0; i < std::min(max_slots(), segments_.size()); ++i) {
      Slot& slot = slots_.emplace_back(options_.device);
      slot.memory = at::empty({bytes}, at::TensorOptions(options_.device).dtype(at::kByte));
      if (!streams_) continue;
      // The memory may have been freed by work that the compute stream has yet to do; and when it is freed,
      // copies may still be under way.
      slot.stored.record(streams_->compute());
      slot.memory.record_stream(streams_->load);
      slot.memory.record_stream(streams_->store);
    }
    for (size_t i = 0; i < segments_.size(); ++i) bind(i);
  }

  /// Makes a segment's states views of its slot.
  void bind(size_t index) {
    StagedSegment& segment = segments_[index];
    const at::Tensor& memory = slot_of(index).memory;
    const auto view = [&](int64_t place) {
      return memory.narrow(0, place * segment.size.padded_tensor_bytes(), segment.size.tensor_bytes())
          .view(segment.dtype);
    };
    segment.states.exp_avg = view(0);
    segment.states.exp_avg_sq = view(1);
    if (segment.size.has_master) segment.states.master = view(2);
  }

  /// Starts to bring a segment to its slot, unless it is there or on its way.
  void load(size_t index) {
    used_ = true;
    Slot& slot = slot_of(index);
    if (slot.holds == index) return;
    // A segment that was expected and never taken is unchanged.
    if (slot.holds) host_->give_back(*std::exchange(slot.holds, std::nullopt));
    slot.in_host = &host_->take(index);
    slot.holds = index;
    std::optional<c10::StreamGuard> guard;
    if (streams_) {
      slot.stored.block(streams_->load);
      guard.emplace(streams_->load);
    }
    copy(*slot.in_host, segments_[index].states);
    if (streams_) slot.loaded.record(streams_->load);
  }

  void copy(const SegmentStates& from, const SegmentStates& to) const {
    const bool non_blocking = options_.host == HostMemory::kPinned;
    to.exp_avg.copy_(from.exp_avg, non_blocking);
    to.exp_avg_sq.copy_(from.exp_avg_sq, non_blocking);
    // Absent in the other store if it stays on the device.
    if (from.master.defined() && to.master.defined()) to.master.copy_(from.master, non_blocking);
  }

  StagedStoreOptions options_;
  std::unique_ptr<StateStore> host_;
  std::optional<CopyStreams> streams_;
  std::vector<StagedSegment> segments_;
  std::vector<Slot> slots_;
  std::optional<size_t> taken_;
  bool used_ = false;  // a segment has been on the device
};

/// Copies of the states in host memory; on a CPU device in ordinary memory, which a build without CUDA can
/// allocate.
class HostStore final : public StateStore {
 public:
  explicit HostStore(at::Device device) : pinned_(!device.is_cpu()) {}

  void add(SegmentStates states) override {
    states_.push_back({.master = states.master.defined() ? in_host(states.master) : at::Tensor(),
                       .exp_avg = in_host(states.exp_avg),
                       .exp_avg_sq = in_host(states.exp_avg_sq)});
  }
  void expect(size_t) override {}
  SegmentStates& take(size_t segment) override { return states_.at(segment); }
  void give_back(size_t) override {}

 private:
  at::Tensor in_host(const at::Tensor& tensor) const {
    return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(pinned_)).copy_(tensor);
  }

  bool pinned_;
  std::vector<SegmentStates> states_;
};

}  // namespace

int64_t staged_bytes(std::span<const StatesSize> segments, HostMemory host) {
  int64_t most = 0;
  for (const StatesSize& segment : segments) most = std::max(most, segment.padded_bytes());
  return most * static_cast<int64_t>(std::min(slots_of(host), segments.size()));
}

std::unique_ptr<StateStore> make_staged_store(const StagedStoreOptions& options,
                                              std::unique_ptr<StateStore> host) {
  tensor::memory_stats(options.device);  // throws unless the device exists
  return std::make_unique<StagedStore>(options, std::move(host));
}

std::unique_ptr<StateStore> make_pinned_store(at::Device device) {
  return make_staged_store({.device = device, .host = HostMemory::kPinned},
                           std::make_unique<HostStore>(device));
}

}  // namespace braid::optim
