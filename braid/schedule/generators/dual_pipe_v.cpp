#include "braid/schedule/generators/dual_pipe_v.h"
#include "braid/schedule/generators/v_shape.h"

#include <array>
#include <deque>
#include <utility>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

// One rank's list. Chunk 0 is on the way down the V, chunk 1 on the way back.
class RankOrder {
 public:
  explicit RankOrder(int32_t microbatches) { order_.reserve(6 * static_cast<size_t>(microbatches)); }

  void forward(int32_t chunk) { append(Op::kForward, chunk, next_forward_); }

  void backward(int32_t chunk) { append(Op::kBackward, chunk, next_backward_); }

  void backward_input(int32_t chunk) {
    append(Op::kBackwardInput, chunk, next_backward_);
    deferred_.push_back({.op = Op::kBackwardWeight, .chunk = chunk, .microbatch = order_.back().microbatch});
  }

  // The oldest that was deferred.
  void backward_weight() {
    order_.push_back(deferred_.front());
    deferred_.pop_front();
  }

  std::vector<Action> take() { return std::move(order_); }

 private:
  using Next = std::array<int32_t, 2>;  // microbatch of each chunk

  void append(Op op, int32_t chunk, Next& next) {
    order_.push_back({.op = op, .chunk = chunk, .microbatch = next[static_cast<size_t>(chunk)]++});
  }

  std::vector<Action> order_;
  std::deque<Action> deferred_;
  Next next_forward_{};
  Next next_backward_{};
};

// Numbered as in DualPipe's step().
std::vector<Action> rank_order(const PipelineShape& shape, int32_t rank) {
  RankOrder order(shape.microbatches);
  const int32_t hops = shape.ranks - 1 - rank;  // to the turn of the V
  const int32_t inner = rank + 1;
  const auto repeat = [](int32_t times, auto&& body) {
    for (int32_t i = 0; i < times; ++i) body(i);
  };
  // 1: fill the way down
  repeat(2 * hops, [&](int32_t) { order.forward(0); });
  // 2: the first microbatches come back
  repeat(inner, [&](int32_t) {
    order.forward(0);
    order.forward(1);
  });
  // 3: their backwards, split so that the next rank does not wait
  repeat(hops, [&](int32_t) {
    order.backward_input(1);
    order.backward_weight();
    order.forward(1);
  });
  // 4: the steady state
  repeat(shape.microbatches - 2 * shape.ranks + inner, [&](int32_t) {
    order.forward(0);
    order.backward(1);
    order.forward(1);
    order.backward(0);
  });
  // 5: no forwards are left for the way down
  repeat(hops, [&](int32_t) {
    order.backward(1);
    order.forward(1);
    order.backward(0);
  });
  // 6: nor for the way back; the second half is split, to have W for the steps after it
  repeat(2 * inner, [&](int32_t i) {
    const int32_t chunk = i % 2 == 0 ? 1 : 0;
    if (i < inner) {
      order.backward(chunk);
    } else {
      order.backward_input(chunk);
    }
  });
  // 7: W while the last gradients arrive
  repeat(hops, [&](int32_t) {
    order.backward_weight();
    order.backward_input(0);
  });
  // 8: the W left over
  repeat(inner, [&](int32_t) { order.backward_weight(); });
  return order.take();
}

}  // namespace

Schedule dual_pipe_v(const PipelineShape& shape) {
  Schedule schedule = v_schedule("DualPipeV", shape);
  require<ConfigError>(shape.microbatches / 2 >= shape.ranks, "DualPipeV on ", shape.ranks,
                       " ranks needs at least ", int64_t{2} * shape.ranks, " microbatches, got ",
                       shape.microbatches);
  for (int32_t rank = 0; rank < shape.ranks; ++rank) schedule.ranks.push_back(rank_order(shape, rank));
  return schedule;
}

}  // namespace braid::schedule
