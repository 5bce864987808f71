// A build without Highway (BRAID_WITH_HIGHWAY=OFF) has only the ATen kernels.
#include <ATen/ATen.h>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/cpu/kernels.h"

namespace braid::kernels::cpu {

bool handles(const at::Tensor& /*t*/) { return false; }

void rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& y,
              const at::Tensor& rstd) {
  aten::rms_norm(x, weight, eps, y, rstd);
}

void add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight, double eps,
                  const at::Tensor& sum, const at::Tensor& y, const at::Tensor& rstd) {
  aten::add_rms_norm(x, branch, weight, eps, sum, y, rstd);
}

void rms_norm_backward_input(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd, const std::optional<at::Tensor>& dresidual,
                             const at::Tensor& dx) {
  aten::rms_norm_backward_input(dy, x, weight, rstd, dresidual, dx);
}

void rms_norm_backward_weight(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                              const at::Tensor& main_grad, Accumulate mode) {
  aten::rms_norm_backward_weight(dy, x, rstd, main_grad, mode);
}

void rope_forward_(const at::Tensor& qkv, const RopeTable& table, const RopeShape& shape) {
  aten::rope_forward_(qkv, table, shape);
}

void rope_backward_pack(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv,
                        const RopeTable& table, const RopeShape& shape, const at::Tensor& dqkv) {
  aten::rope_backward_pack(dq, dk, dv, table, shape, dqkv);
}

void swiglu(const at::Tensor& gate_up, const at::Tensor& y) { aten::swiglu(gate_up, y); }

void swiglu_backward(const at::Tensor& dy, const at::Tensor& gate_up, const at::Tensor& d_gate_up,
                     const at::Tensor& activation) {
  aten::swiglu_backward(dy, gate_up, d_gate_up, activation);
}

LossSum softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              std::optional<double> grad_scale) {
  return aten::softmax_cross_entropy(logits, targets, grad_scale);
}

void softmax_part_statistics(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                             const at::Tensor& statistics) {
  aten::softmax_part_statistics(logits, targets, begin, statistics);
}

void softmax_part_gradient_(const at::Tensor& logits, const at::Tensor& targets, int64_t begin,
                            const at::Tensor& max_sum, double grad_scale) {
  aten::softmax_part_gradient_(logits, targets, begin, max_sum, grad_scale);
}

void adamw_(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
            const at::Tensor& grad, const at::Tensor& value, const AdamWStep& step) {
  aten::adamw_(master, exp_avg, exp_avg_sq, grad, value, step);
}

std::vector<double> block_squares(const at::Tensor& t) { return aten::block_squares(t); }

void embedding_backward(const at::Tensor& tokens, const at::Tensor& dy, const at::Tensor& main_grad,
                        Accumulate mode) {
  aten::embedding_backward(tokens, dy, main_grad, mode);
}

void convert(const at::Tensor& from, const at::Tensor& to) { to.copy_(from); }

}  // namespace braid::kernels::cpu
