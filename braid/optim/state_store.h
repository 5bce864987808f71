// Where an optimizer's states live between updates: on the device, in pinned host memory, or in a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace braid::optim {

/// The states of one segment, flat, in the main dtype; element i belongs to element i of the segment.
struct SegmentStates {
  at::Tensor master;  ///< the weights at full precision; the segment's values if they already are
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

/// What the states of a segment take.
struct StatesSize {
  int64_t numel = 0;
  int64_t element_bytes = 4;
  bool has_master = false;  ///< a tensor of its own, and not the values themselves

  int64_t tensors() const { return has_master ? 3 : 2; }
  int64_t tensor_bytes() const { return numel * element_bytes; }
  /// The same, aligned as the allocator aligns tensors.
  int64_t padded_tensor_bytes() const;
  int64_t bytes() const { return tensors() * tensor_bytes(); }
  int64_t padded_bytes() const { return tensors() * padded_tensor_bytes(); }
};

/// Whether others hold `tensor` or its memory too, so that moving it elsewhere would free nothing.
bool is_shared(const at::Tensor& tensor);

/// Of what a store that offloads moves of `states`: see StateStore.
StatesSize size_of_moved(const SegmentStates& states);

/// Used from one thread at a time. All segments are added before the first is taken. An optimizer takes one
/// segment at a time, in ascending order: any other order is correct, but a store that offloads brings the
/// next segment in memory while the current one is updated.
///
/// A master that is_shared stays where it is, and the states that are taken contain that tensor: for float32
/// weights it is the weights themselves. Everything else may move.
///
/// Stores that offload report a failed disk or file as an OutputError, from whichever call comes next. The
/// states are then lost: every later call throws the same error, and the update that was under way must not
/// be used, since part of its segments may have been updated.
class StateStore {
 public:
  virtual ~StateStore() = default;

  /// Takes ownership of the states of the next segment: 0, 1, ...
  virtual void add(SegmentStates states) = 0;

  /// A hint, which does not wait, that `segment` will be taken soon. An update's first segment profits from
  /// it, since nothing else announces it; it then occupies memory until it has been taken and given back.
  virtual void expect(size_t segment) = 0;

  /// The states of a segment, in memory that the update can read and write. Valid until give_back.
  virtual SegmentStates& take(size_t segment) = 0;

  /// Ends a use that may have modified the states.
  virtual void give_back(size_t segment) = 0;
};

/// Keeps all states in the memory of the device that computes.
std::unique_ptr<StateStore> make_memory_store();

struct FileStoreOptions {
  std::string directory;         ///< existing, on a disk with room for the states; ranks may share it
  int32_t rank = 0;              ///< part of the file's name in messages
  int64_t total_bytes = 0;       ///< of all states that will be added, if known: reserved at once
  at::Device device = at::kCPU;  ///< that computes
};

/// Keeps the states in a memory-mapped file, which is read ahead and written behind while an update runs. On
/// the CPU the update works on the mapped pages: it copies nothing and allocates nothing, and at most three
/// segments of states are in memory at any time. A GPU has one segment's states of its own, to and from which
/// they are copied.
///
/// The file has no name once this returns: it cannot be removed or truncated by accident, and its space
/// becomes free when the store or the process ends, however it ends. In a file system in memory (tmpfs)
/// states remain in the machine's memory.
///
/// Throws OutputError if no file can be created in the directory, or if it has too little space; `add` throws
/// the same if the space for a segment cannot be reserved.
std::unique_ptr<StateStore> make_file_store(const FileStoreOptions& options);

/// Keeps the states in pinned host memory, and three segments' states at a time on `device`: one being
/// updated, the next one on its way to the device, the previous one on its way back, each on a stream of its
/// own. No host thread waits for the copies. On a CPU device the states are copied likewise, from and to
/// ordinary memory. Throws ConfigError if `device` is a GPU that does not exist or if this build has no CUDA.
std::unique_ptr<StateStore> make_pinned_store(at::Device device);

}  // namespace braid::optim
