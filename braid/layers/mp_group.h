// What layers exchange within their tensor-parallel (mp) group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "braid/comm/work.h"
#include "braid/layers/placement.h"

namespace braid::layers {

/// Rows that a collective is producing, or that are complete already.
class PendingRows {
 public:
  PendingRows() = default;  // none
  /// `rows` are complete.
  explicit PendingRows(at::Tensor rows) : rows_(std::move(rows)) {}
  /// `work` produces the rows, in `rows` if that is defined. `source` is what it reads.
  PendingRows(comm::Work work, at::Tensor rows, at::Tensor source)
      : work_(std::move(work)), rows_(std::move(rows)), source_(std::move(source)) {}

  /// The rows [.., N], as Work::wait; afterwards this is empty. Throws CommError like Work::wait.
  at::Tensor wait();

  /// What is held until then, including undefined tensors.
  std::vector<const at::Tensor*> tensors() const { return {&rows_, &source_}; }

 private:
  comm::Work work_;
  at::Tensor rows_, source_;
};

/// What W gathers: the rows of dy and of x, of a product's input and output gradient.
struct GatheredRows {
  PendingRows dy, x;
};

/// A rank's place in its mp group. In a group of one, nothing is exchanged or copied. Otherwise every rank of
/// the group calls the same methods in the same order. The tensors passed must not be modified until wait.
class MpGroup {
 public:
  MpGroup() = default;  // of one
  /// Throws like validate(place).
  explicit MpGroup(const Placement& place);

  int32_t degree() const { return degree_; }
  bool is_parallel() const { return degree_ > 1; }

  /// s, for this rank's part [b, s', H] of an activation: s' without sequence parallelism.
  int64_t sequence_tokens(const at::Tensor& own) const { return own.size(1) * row_parts(); }

  /// s', for s. Throws ShapeError unless the ranks divide it (sequence parallelism).
  int64_t own_sequence_tokens(int64_t sequence_tokens) const;

  /// All rows [T, N], for this rank's: with sequence parallelism an all-gather of [T / mp, N], otherwise they
  /// are all.
  PendingRows gather(const at::Tensor& own) const;

  /// This rank's rows of the sum of all ranks' `partial` [T, N]: with sequence parallelism a reduce-scatter,
  /// otherwise an all-reduce, which overwrites `partial`.
  PendingRows sum(const at::Tensor& partial) const;

  /// Every rank's `mine`: [mp, sizes of `mine`...].
  comm::Work all_gather(const at::Tensor& mine) const;

 private:
  int64_t row_parts() const { return sequence_parallel_ ? degree_ : 1; }
  comm::Communicator& communicator() const;

  int32_t degree_ = 1;
  bool sequence_parallel_ = false;
  comm::Communicator* mp_ = nullptr;
};

}  // namespace braid::layers
