#include "braid/kernels/rope.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "braid/base/error.h"
#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/check.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels {
namespace {

// Source of kLlama3: Llama 3.1's rope scaling, as config.json's rope_type "llama3" describes it.
double scaled_frequency(double frequency, const RopeScaling& scaling) {
  switch (scaling.type) {
    case RopeScaling::Type::kNone:
      return frequency;
    case RopeScaling::Type::kLinear:
      return frequency / scaling.factor;
    case RopeScaling::Type::kLlama3:
      break;
  }
  const double turns =
      static_cast<double>(scaling.original_max_positions) * frequency / (2 * std::numbers::pi);
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

// Returns the head size.
int64_t check_table(const RopeTable& table, const RopeShape& shape, const at::Tensor& like) {
  require<ShapeError>(shape.seq > 0 && shape.query_heads > 0 && shape.key_value_heads > 0,
                      "seq, query_heads and key_value_heads must be positive, got ", shape.seq, ", ",
                      shape.query_heads, " and ", shape.key_value_heads);
  require<ShapeError>(shape.query_heads % shape.key_value_heads == 0, "query_heads (", shape.query_heads,
                      ") must be a multiple of key_value_heads (", shape.key_value_heads, ")");
  require_matrix(table.cos_Sd, "cos table");
  require_tensor(table.cos_Sd, "cos table", table.cos_Sd.sizes(), at::kFloat, like);
  require_tensor(table.sin_Sd, "sin table", table.cos_Sd.sizes(), at::kFloat, like);
  require<ShapeError>(shape.seq <= table.cos_Sd.size(0), "sequences of ", shape.seq,
                      " tokens need a rope table with as many positions, but it has ", table.cos_Sd.size(0));
  return 2 * table.cos_Sd.size(1);
}

void check_head_gradient(const at::Tensor& t, const char* name, const at::Tensor& dq,
                         const RopeShape& shape) {
  require<ShapeError>(t.defined() && t.dim() == 4 && t.size(0) == dq.size(0) && t.size(2) == shape.seq &&
                          t.size(3) == dq.size(3) && t.scalar_type() == dq.scalar_type() &&
                          t.device() == dq.device(),
                      name, " must be [", dq.size(0), ", heads, ", shape.seq, ", ", dq.size(3),
                      "] like dq, got ", describe(t));
  require<ShapeError>(t.size(1) == shape.key_value_heads || t.size(1) == shape.query_heads, name,
                      " must have ", shape.key_value_heads, " or ", shape.query_heads, " heads, got ",
                      t.size(1));
}

}  // namespace

RopeTable rope_table(const RopeTableOptions& options) {
  const RopeScaling& scaling = options.scaling;
  require<ConfigError>(options.head_dim > 0 && options.head_dim % 2 == 0,
                       "the size of a head must be even and positive for rotary embedding, got ",
                       options.head_dim);
  require<ConfigError>(options.max_positions > 0, "max_positions must be positive, got ",
                       options.max_positions);
  require<ConfigError>(options.theta > 0, "rope_theta must be positive, got ", options.theta);
  require<ConfigError>(scaling.factor > 0, "rope_scaling's factor must be positive, got ", scaling.factor);
  if (scaling.type == RopeScaling::Type::kLlama3) {
    require<ConfigError>(0 < scaling.low_freq_factor && scaling.low_freq_factor < scaling.high_freq_factor,
                         "rope_scaling needs 0 < low_freq_factor < high_freq_factor, got ",
                         scaling.low_freq_factor, " and ", scaling.high_freq_factor);
    require<ConfigError>(scaling.original_max_positions > 0,
                         "rope_scaling's original_max_position_embeddings must be positive, got ",
                         scaling.original_max_positions);
  }
  const int64_t half = options.head_dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(options.head_dim);
    frequencies[static_cast<size_t>(i)] = scaled_frequency(std::pow(options.theta, -exponent), scaling);
  }
  RopeTable table = {.cos_Sd = at::empty({options.max_positions, half}, at::kFloat),
                     .sin_Sd = at::empty({options.max_positions, half}, at::kFloat)};
  float* cos = table.cos_Sd.mutable_data_ptr<float>();
  float* sin = table.sin_Sd.mutable_data_ptr<float>();
  for (int64_t position = 0; position < options.max_positions; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(angle));
      *sin++ = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

void rope_forward_(const at::Tensor& qkv_TE, const RopeTable& table, const RopeShape& shape) {
  require_matrix(qkv_TE, "qkv");
  const int64_t head_dim = check_table(table, shape, qkv_TE);
  require<ShapeError>(qkv_TE.size(0) % shape.seq == 0, "qkv must have a multiple of seq = ", shape.seq,
                      " rows, got ", describe(qkv_TE));
  const int64_t width = (shape.query_heads + 2 * shape.key_value_heads) * head_dim;
  require<ShapeError>(qkv_TE.size(1) == width, "qkv must have (", shape.query_heads, " + 2 * ",
                      shape.key_value_heads, ") * ", head_dim, " = ", width, " columns, got ",
                      describe(qkv_TE));
  if (cpu::handles(qkv_TE)) {
    cpu::rope_forward_(qkv_TE, table, shape);
  } else {
    aten::rope_forward_(qkv_TE, table, shape);
  }
}

at::Tensor rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                              const RopeTable& table, const RopeShape& shape) {
  require<ShapeError>(dq.defined() && dq.dim() == 4 && at::isFloatingType(dq.scalar_type()),
                      "dq must be floating point with 4 dimensions, got ", describe(dq));
  const int64_t head_dim = check_table(table, shape, dq);
  require<ShapeError>(dq.size(1) == shape.query_heads && dq.size(2) == shape.seq && dq.size(3) == head_dim,
                      "dq must be [batch, ", shape.query_heads, ", ", shape.seq, ", ", head_dim, "], got ",
                      describe(dq));
  check_head_gradient(dk, "dk", dq, shape);
  check_head_gradient(dv, "dv", dq, shape);
  at::Tensor dqkv = at::empty(
      {dq.size(0) * shape.seq, (shape.query_heads + 2 * shape.key_value_heads) * head_dim}, dq.options());
  if (cpu::handles(dqkv)) {
    cpu::rope_backward_pack(dq, dk, dv, table, shape, dqkv);
  } else {
    aten::rope_backward_pack(dq, dk, dv, table, shape, dqkv);
  }
  return dqkv;
}

}  // namespace braid::kernels
