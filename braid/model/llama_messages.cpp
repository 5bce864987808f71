#include <algorithm>

#include "braid/layers/head.h"
#include "braid/layers/layer_spec.h"
#include "braid/model/llama_cost.h"

namespace braid::model {
namespace {

using comm::Collective;
using comm::CollectiveTraffic;
using config::ModelConfig;
using cost::MicrobatchShape;
using layers::MpMessages;

/// The formulas of comm/communicator.h for one microbatch's rows [T, H].
class Rows {
 public:
  Rows(const ModelConfig& model, const MicrobatchShape& shape)
      : shape_(shape), elements_(shape.tokens() * model.hidden_size) {}

  /// The sum over the group: each rank gets its rows.
  void sum(CollectiveTraffic& traffic) const {
    const int64_t n = shape_.mp_degree;
    if (shape_.sequence_parallel) {
      traffic.add(Collective::kReduceScatterSum, (n - 1) * (elements_ / n) * shape_.element_bytes);
    } else {
      const int64_t shard = elements_ / n + (shape_.mp_index < elements_ % n ? 1 : 0);
      traffic.add(Collective::kAllReduceSum, (elements_ + (n - 2) * shard) * shape_.element_bytes);
    }
  }

  /// The rows of all ranks, where each has only its own.
  void gather(CollectiveTraffic& traffic, int count = 1) const {
    if (!shape_.sequence_parallel) return;
    const int64_t n = shape_.mp_degree;
    for (int i = 0; i < count; ++i)
      traffic.add(Collective::kAllGather, (n - 1) * (elements_ / n) * shape_.element_bytes);
  }

 private:
  MicrobatchShape shape_;
  int64_t elements_;
};

/// Of either half of a decoder layer: a column-parallel product, then a row-parallel one.
MpMessages half_messages(const ModelConfig& model, const MicrobatchShape& shape, int gathered_in_weight) {
  MpMessages messages;
  if (shape.mp_degree == 1) return messages;
  const Rows rows(model, shape);
  rows.gather(messages.forward);
  rows.sum(messages.forward);
  rows.gather(messages.recompute);
  rows.gather(messages.backward_input);  // dy
  rows.sum(messages.backward_input);
  rows.gather(messages.backward_weight, gathered_in_weight);  // dy, the norm's output
  rows.gather(messages.backward, 2);
  rows.sum(messages.backward);
  return messages;
}

}  // namespace

MpMessages embedding_messages(const ModelConfig& model, const MicrobatchShape& shape) {
  MpMessages messages;
  if (shape.mp_degree == 1) return messages;
  const Rows rows(model, shape);
  rows.sum(messages.forward);
  rows.gather(messages.backward_weight);
  rows.gather(messages.backward);
  return messages;
}

MpMessages attention_messages(const ModelConfig& model, const MicrobatchShape& shape,
                              const layers::Savings& savings) {
  MpMessages messages = half_messages(model, shape, savings.early_gradients ? 1 : 2);
  if (savings.early_gradients && shape.mp_degree > 1) {
    Rows(model, shape).gather(messages.backward_input);  // the norm's output
  }
  return messages;
}

MpMessages mlp_messages(const ModelConfig& model, const MicrobatchShape& shape,
                        const layers::Savings& savings) {
  return half_messages(model, shape, savings.early_gradients ? 1 : 2);
}

MpMessages head_messages(const ModelConfig& model, const MicrobatchShape& shape) {
  MpMessages messages;
  if (shape.mp_degree == 1) return messages;
  const Rows rows(model, shape);
  rows.gather(messages.forward);
  rows.sum(messages.forward);
  const int64_t block_rows =
      layers::Head::rows_per_block({.vocabulary = model.vocab_size, .place = layers::placement_of(shape)},
                                   shape.tokens(), shape.element_bytes);
  constexpr int64_t kStatistics = 3;
  for (int64_t begin = 0; begin < shape.tokens(); begin += block_rows) {
    const int64_t count = std::min(block_rows, shape.tokens() - begin);
    messages.forward.add(Collective::kAllGather,
                         (shape.mp_degree - 1) * kStatistics * count * shape.wide_element_bytes);
  }
  return messages;
}

}  // namespace braid::model
