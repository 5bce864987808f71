// Every kernel as a plain composition of ATen operators: any device, any dtype. Also the reference that the
// fused kernels are tested against.
//
// Arguments have been checked by the public functions of the same names; results are written to the last
// tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "braid/kernels/accumulate.h"
#include "braid/kernels/adamw.h"
#include "braid/kernels/cross_entropy.h"
#include "braid/kernels/rope.h"

namespace braid::kernels::aten {

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
/// For devices; the CPU's is in cross_entropy.cpp.
LossSum join_softmax_parts(const at::Tensor& statistics, const at::Tensor& targets,
                           const at::Tensor& max_sum);

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step);

/// The sum of the squares in each block of kSquaresBlock elements of the flat `t`, in float64.
std::vector<double> block_squares(const at::Tensor& t);

void embedding_backward(const at::Tensor& tokens, const at::Tensor& dy, const at::Tensor& main_grad,
                        Accumulate mode);

void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out);
void linear_backward_input(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& out);
void accumulate_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& main_grad,
                                Accumulate mode);

}  // namespace braid::kernels::aten
