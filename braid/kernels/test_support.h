// Shared by the kernels' tests: seeded tensors, comparison with a bound per element, a run on every
// instruction set.
//
// Bounds count roundings: u is the unit roundoff, and a sum of n terms in any order is within n * u * (sum of
// absolute terms).
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <functional>
#include <limits>
#include <string>

#include "braid/kernels/cpu/dispatch.h"

namespace braid::kernels {

inline constexpr double kUnitFloat = 0x1p-24;

/// Unit roundoff of a stored result: 2^-p for a significand of p bits.
inline double unit_of(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? 0x1p-8 : dtype == at::kDouble ? 0x1p-53 : kUnitFloat;
}

inline at::Tensor random_normal(at::IntArrayRef sizes, at::ScalarType dtype, uint64_t seed,
                                double deviation = 1) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return (at::randn(sizes, generator, at::kDouble) * deviation).to(dtype);
}

inline at::Tensor wide(const at::Tensor& t) { return t.to(at::kDouble); }

/// The largest |got - want| / bound over the elements; infinity if one of them is NaN. At most 1 if every
/// bound holds.
inline double worst(const at::Tensor& got, const at::Tensor& want, const at::Tensor& bound) {
  const at::Tensor ratio = (wide(got) - want).abs() / (bound + std::numeric_limits<float>::min());
  if (ratio.numel() == 0) return 0;
  return at::nan_to_num(ratio, std::numeric_limits<double>::infinity()).max().item<double>();
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a.contiguous().view(at::kByte), b.contiguous().view(at::kByte));
}

/// Runs `check` once per instruction set of this processor (once in a build without Highway), passing its
/// name.
inline void on_every_instruction_set(const std::function<void(const std::string&)>& check) {
  if (cpu::instruction_sets().empty()) check("ATen");
  for (const std::string& name : cpu::instruction_sets()) {
    cpu::with_instruction_set(name, [&] { check(name); });
  }
}

}  // namespace braid::kernels
