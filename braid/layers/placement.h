// Where a layer is made, and which part of it.
//
// Tensor parallelism (mp): the ranks of a group share the work of every layer. Matrices are cut by output
// features (q, k, v, gate, up: column-parallel) or by input features (o, down: row-parallel), the embedding
// and the head by the vocabulary. Source: Shoeybi et al. 2019, "Megatron-LM", arXiv:1909.08053, section 3.
//
// Sequence parallelism: between layers each rank has only its part of the rows, so that norms and residual
// sums are shared too. With T = b * s rows in order, rank i of n has the rows [i T / n, (i + 1) T / n), as
// [b, s / n, H]. Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string_view>

#include "braid/tensor/tensor_slice.h"

namespace braid::comm {
class Communicator;
}

namespace braid::layers {

struct Placement {
  c10::Device device = c10::Device(c10::kCPU);
  int32_t mp_index = 0;
  int32_t mp_degree = 1;
  bool sequence_parallel = false;    ///< only with mp_degree > 1
  comm::Communicator* mp = nullptr;  ///< the mp group, which must outlive the layer; null where mp_degree is
                                     ///< 1, and on c10::kMeta, for planning
};

/// Throws ConfigError, naming the field, unless the numbers fit together; InternalError unless the
/// communicator is that of this group.
void validate(const Placement& place);

/// This rank's part of `size` equal units. Throws ConfigError, which names `what`, unless mp_degree divides
/// `size`.
tensor::Range equal_part(int64_t size, const Placement& place, std::string_view what);

/// Key-value heads of a rank: its part, or, if the group has more ranks than there are heads, the one that
/// its query heads use.
struct KeyValueHeads {
  tensor::Range part;
  int32_t copies = 1;  ///< neighbouring ranks with the same heads
};

/// Throws ConfigError unless one of mp_degree and `heads` divides the other.
KeyValueHeads key_value_part(int64_t heads, const Placement& place);

/// Token ids of the first ranks of the group: ceil(vocabulary / mp_degree).
int64_t vocabulary_part_size(int64_t vocabulary, int32_t mp_degree);

/// This rank's token ids. All ranks but the last have vocabulary_part_size of them. Throws ConfigError if
/// that leaves none for some rank.
tensor::Range vocabulary_part(int64_t vocabulary, const Placement& place);

}  // namespace braid::layers
