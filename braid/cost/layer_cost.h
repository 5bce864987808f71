// The cost of one layer of a model: arithmetic, memory traffic, and saved bytes.
#pragma once

#include <cstdint>

namespace braid::cost {

/// One microbatch, the dtype it runs in, and which rank of a tensor-parallel (mp) group runs it.
struct MicrobatchShape {
  int64_t sequences = 0;           ///< b
  int64_t sequence_tokens = 0;     ///< s
  int64_t element_bytes = 4;       ///< of activations: 4 for float32, 2 for bfloat16, 8 for float64
  int64_t wide_element_bytes = 4;  ///< of norm and softmax statistics: 4, or 8 for float64
  int32_t mp_index = 0;            ///< makes a difference only where the group does not divide a size
  int32_t mp_degree = 1;
  bool sequence_parallel = false;  ///< the rows between layers are cut across the group as well

  int64_t tokens() const { return sequences * sequence_tokens; }

  /// The rows between layers that this rank has.
  int64_t own_tokens() const { return sequence_parallel ? tokens() / mp_degree : tokens(); }
};

/// What a layer keeps for one microbatch, in bytes. Allocator rounding is not counted.
struct SavedBytes {
  int64_t forward_to_backward = 0;  ///< M_B: held between F and B
  int64_t backward_to_weight = 0;   ///< M_W: held between B and W
  bool operator==(const SavedBytes&) const = default;
};

/// The work of a layer for one token. Only matrix products count as arithmetic, a multiply-add as two
/// operations; the rest is bound by memory.
struct LayerWork {
  double forward_flops = 0;         ///< of the forward pass; backward takes twice as many
  double output_flops = 0;          ///< those of the forward pass that only the output needs
  double recomputed_flops = 0;      ///< of the forward pass again, in B
  double early_gradient_flops = 0;  ///< of weight gradients, done in B instead of W
  double activation_elements = 0;   ///< read and written by element-wise work, forward and backward together
  bool operator==(const LayerWork&) const = default;
};

/// Converts bytes into the operations that could have been executed meanwhile. The defaults are those of a
/// CPU core in float32 and of a small run; balancing depends on them only weakly, since matrix products
/// dominate every layer but the embedding.
struct Machine {
  double flops_per_byte = 10;     ///< arithmetic speed over memory speed
  double tokens_per_step = 8192;  ///< one optimizer step's work is spread over this many tokens
  bool operator==(const Machine&) const = default;
};

/// Of forward and backward, per token: three times the forward pass. Recomputation to save memory is not
/// counted.
double training_flops(const LayerWork& work);

/// A layer's share of a training step as one number, in operations per token, by which models are cut into
/// stages: its training FLOPs, what it recomputes, and the bytes moved by element-wise work (4 per element)
/// and by the optimizer (28 per parameter and step). Throws ConfigError if the machine's numbers are out of
/// range.
double training_cost(const LayerWork& work, int64_t parameters, const Machine& machine = {});

}  // namespace braid::cost
