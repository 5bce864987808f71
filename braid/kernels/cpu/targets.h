// The instruction sets that the fused kernels are compiled for; included before any header of Highway.
#pragma once

// SSSE3 and AVX3_DL would add only compile time, nothing for float arithmetic; the kernels keep vectors in
// arrays, which scalable vectors forbid.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
