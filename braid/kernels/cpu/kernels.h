// The kernels fused for CPUs, float32 and bfloat16: one pass over memory, vectorised for the processor they
// run on.
//
// Arguments have been checked by the public functions of the same names, and `handles` holds for them;
// results are written to the last tensors. No result depends on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "braid/kernels/accumulate.h"
#include "braid/kernels/adamw.h"
#include "braid/kernels/cross_entropy.h"
#include "braid/kernels/rope.h"

namespace braid::kernels::cpu {

/// Whether these kernels work on tensors like `t`. Never in a build without Highway.
bool handles(const at::Tensor& t);

void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& rstd);
void add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, double eps,
                  const at::Tensor& sum, const at::Tensor& y, const at::Tensor& rstd);
void rms_norm_backward_input(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd, const std::optional<at::Tensor>& dresidual,
                             const at::Tensor& dx);
void rms_norm_backward_weight(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                              const at::Tensor& main_grad, Accumulate mode);

void rope_forward_(const at::Tensor& qkv, const RopeTable& table, const RopeShape& shape);
void rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                        const RopeTable& table, const RopeShape& shape, const at::Tensor& dqkv);

void swiglu(const at::Tensor& gate_up, const at::Tensor& y);
/// d_gate_up may be gate_up.
void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up, const at::Tensor& d_gate_up,
                     const at::Tensor& activation);

/// Does not change the logits if grad_scale is absent.
LossSum softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale);

void softmax_part_statistics(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                             const at::Tensor& statistics);
void softmax_part_gradient_(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                            const at::Tensor& max_sum, double grad_scale);

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step);

/// The sum of the squares in each block of kSquaresBlock elements of the flat `t`, in float64.
std::vector<double> block_squares(const at::Tensor& t);

void embedding_backward(const at::Tensor& tokens, const at::Tensor& dy, const at::Tensor& main_grad,
                        Accumulate mode);

/// A float32 matrix from a bfloat16 one, or back. Both may be slices of columns: only their rows must be
/// contiguous.
void convert(const at::Tensor& from, const at::Tensor& to);

}  // namespace braid::kernels::cpu
