// Bytes that a layer keeps of one microbatch, as formulas: from F to B, and from B to W.
#pragma once

#include <cstdint>

#include "braid/config/model_config.h"

namespace braid::cost {

/// One microbatch and the dtype it runs in.
struct MicrobatchShape {
  int64_t sequences = 0;           ///< b
  int64_t sequence_tokens = 0;     ///< s
  int64_t element_bytes = 4;       ///< of activations: 4 for float32, 2 for bfloat16, 8 for float64
  int64_t wide_element_bytes = 4;  ///< of norm and softmax statistics: 4, or 8 for float64
};

struct SavedBytes {
  int64_t forward_to_backward = 0;  ///< M_B: held between F and B
  int64_t backward_to_weight = 0;   ///< M_W: held between B and W
  bool operator==(const SavedBytes&) const = default;
};

/// What braid::layers' Embedding, Attention, Mlp and Head hold. Allocator rounding is not counted.
SavedBytes embedding_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape);
SavedBytes attention_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape);
SavedBytes mlp_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape);
SavedBytes head_saved_bytes(const config::ModelConfig& model, const MicrobatchShape& shape);

}  // namespace braid::cost
