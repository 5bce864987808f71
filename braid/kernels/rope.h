// Rotary position embedding in place on packed query, key and value rows, and its inverse fused with packing
// their gradients.
//
// A row of qkv holds (query heads + 2 * key-value heads) * d numbers: queries, then keys, then values.
// Feature i of a head is rotated with feature i + d/2 (the pairing of Hugging Face's Llama weights), by
// position * frequency_i. Source: Su et al. 2021, arXiv:2104.09864, section 3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace braid::kernels {

/// How the frequencies are stretched for contexts longer than those trained on (config.json's
/// "rope_scaling").
struct RopeScaling {
  enum class Type : uint8_t { kNone, kLinear, kLlama3 };
  Type type = Type::kNone;
  double factor = 1.0;
  // kLlama3 only: wavelengths above original_max_positions / low_freq_factor are stretched by `factor`, those
  // below original_max_positions / high_freq_factor are kept, those in between are blended.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_positions = 8192;
};

/// Cosine and sine of each position's angles.
struct RopeTable {
  at::Tensor cos_Sd;  // [S, d/2] float32
  at::Tensor sin_Sd;  // [S, d/2] float32
};

struct RopeTableOptions {
  int64_t max_positions = 0;  // S
  int64_t head_dim = 0;       // d, even
  double theta = 10000.0;
  RopeScaling scaling = {};
};

/// The table on the CPU, computed in double. Throws ConfigError for an odd head_dim or a value out of range.
RopeTable rope_table(const RopeTableOptions& options);

struct RopeShape {
  int64_t seq = 0;  // tokens of one sequence; row r of qkv is at position r % seq
  int64_t query_heads = 0;
  int64_t key_value_heads = 0;
};

/// Rotates queries and keys in place; values are unchanged.
///
///   qkv_TE  [T, (query_heads + 2 * key_value_heads) * d]  float32, bfloat16 or float64, contiguous
///
/// Throws ShapeError if the shapes or the table's device do not match, or T is not a multiple of seq.
void rope_forward_(const at::Tensor& qkv_TE, const RopeTable& table, const RopeShape& shape);

/// Gradient of qkv before the rotation, packed like qkv: queries and keys rotated back, values copied.
///
///   dq       [batch, query_heads, seq, d]  any strides
///   dk, dv   [batch, n, seq, d]            any strides; n is key_value_heads, or query_heads if keys
///                                          and values were repeated for grouped queries
///   returns  [batch * seq, (query_heads + 2 * key_value_heads) * d], dtype of dq
///
/// Repeated heads are summed over their group in ascending order, in float32, and rounded once.
/// Throws ShapeError if the shapes do not match.
at::Tensor rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                              const RopeTable& table, const RopeShape& shape);

}  // namespace braid::kernels
