#include "braid/layers/mp_group.h"

#include <ATen/ATen.h>

#include <utility>

#include "braid/base/error.h"
#include "braid/comm/communicator.h"

namespace braid::layers {

at::Tensor PendingRows::wait() {
  const at::Tensor rows = work_.done() ? rows_ : work_.wait();
  *this = {};
  return rows.view({-1, rows.size(-1)});
}

MpGroup::MpGroup(const Placement& place)
    : degree_(place.mp_degree), sequence_parallel_(place.sequence_parallel), mp_(place.mp) {
  validate(place);
}

int64_t MpGroup::own_sequence_tokens(int64_t sequence_tokens) const {
  require<ShapeError>(sequence_tokens % row_parts() == 0, "a sequence of ", sequence_tokens,
                      " tokens cannot be cut across ", degree_,
                      " ranks: sequence parallelism needs a multiple of the mp degree");
  return sequence_tokens / row_parts();
}

PendingRows MpGroup::gather(const at::Tensor& own) const {
  if (!sequence_parallel_) return PendingRows(own);
  return {communicator().all_gather(own), {}, own};
}

PendingRows MpGroup::sum(const at::Tensor& partial) const {
  if (degree_ == 1) return PendingRows(partial);
  if (!sequence_parallel_) return {communicator().all_reduce_sum(partial), partial, {}};
  const at::Tensor part = at::empty({partial.size(0) / degree_, partial.size(1)}, partial.options());
  return {communicator().reduce_scatter_sum(partial, part), part, partial};
}

comm::Work MpGroup::all_gather(const at::Tensor& mine) const { return communicator().all_gather(mine); }

comm::Communicator& MpGroup::communicator() const {
  require<InternalError>(mp_ != nullptr, "this layer was made for planning, without its mp group");
  return *mp_;
}

}  // namespace braid::layers
