// Matrix products of bfloat16 on CPUs: on the processor's own bfloat16 units, or through float32 if that is
// faster.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "braid/kernels/accumulate.h"

namespace braid::kernels::cpu {

enum class Bf16Gemm : uint8_t {
  kNative,   // oneDNN, and MKL for sums in float32
  kFloat32,  // operands converted block by block, multiplied in float32
};

struct CpuFeatures {
  bool intel = false;
  bool amx = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
};

/// The features of the processor (as far as the operating system allows them).
CpuFeatures this_cpu();

/// The faster way: a rule and not a measurement, so that identical machines compute identical results.
///
/// Native with AMX, and with avx512_bf16 if VDPBF16PS runs at twice the rate of float32: on AMD, and on Intel
/// before avx512_fp16. Later Intel cores run it at half that rate, and a virtual machine may hide their AMX.
/// Without either instruction bfloat16 is emulated, and float32 is faster.
Bf16Gemm faster_bf16_gemm(const CpuFeatures& cpu);

/// The products of braid/kernels/gemm.h for bfloat16 tensors on the CPU; arguments have been checked.
/// kFloat32 needs float32 memory for one activation operand, and a few MiB.
void linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out, Bf16Gemm how);
void linear_backward_input(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& out,
                           Bf16Gemm how);
void accumulate_weight_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& main_grad,
                                Accumulate mode, Bf16Gemm how);

}  // namespace braid::kernels::cpu
