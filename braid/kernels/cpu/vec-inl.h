// Vectors of float32 over float32 or bfloat16 memory: loads, stores with rounding, loops with a tail.
//
// Compiled once per target. bfloat16 is passed as its bits, uint16_t.
#if defined(BRAID_KERNELS_CPU_VEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRAID_KERNELS_CPU_VEC_INL_H_
#undef BRAID_KERNELS_CPU_VEC_INL_H_
#else
#define BRAID_KERNELS_CPU_VEC_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace braid::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using Bits16 = hn::Rebind<uint16_t, F32>;
using Vec = hn::Vec<F32>;

inline constexpr F32 kF32 = {};
inline constexpr size_t kLanes = hn::MaxLanes(F32());

/// The elements of a vector that are in memory: all, or the first n. The others load as `pad` and are not
/// stored.
struct Whole {};
struct Tail {
  size_t n;
  float pad = 0;
};

HWY_INLINE Vec load(const float* p, Whole /*part*/ = {}) { return hn::LoadU(kF32, p); }

HWY_INLINE Vec load(const uint16_t* p, Whole /*part*/ = {}) {
  const U32 u32;
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(Bits16(), p))));
}

HWY_INLINE void store(Vec v, float* p, Whole /*part*/ = {}) { hn::StoreU(v, kF32, p); }

/// `v` as rounded by storing it as T. For bfloat16: to nearest, ties to even; a NaN stays a NaN (its payload
/// could otherwise carry over into infinity).
template <typename T>
HWY_INLINE Vec rounded_to(Vec v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else {
    const U32 u32;
    const auto bits = hn::BitCast(u32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFF)));
    const auto quiet = hn::Or(bits, hn::Set(u32, 0x400000));
    const auto result = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet, rounded);
    return hn::BitCast(kF32, hn::And(result, hn::Set(u32, 0xFFFF0000)));
  }
}

/// Stores what rounded_to<uint16_t> returned.
HWY_INLINE void store_rounded(Vec v, uint16_t* p, Whole /*part*/ = {}) {
  hn::StoreU(hn::TruncateTo(Bits16(), hn::ShiftRight<16>(hn::BitCast(U32(), v))), Bits16(), p);
}
HWY_INLINE void store_rounded(Vec v, float* p, Whole /*part*/ = {}) { store(v, p); }

HWY_INLINE void store(Vec v, uint16_t* p, Whole /*part*/ = {}) { store_rounded(rounded_to<uint16_t>(v), p); }

HWY_INLINE Vec load(const float* p, Tail part) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(hn::Set(kF32, part.pad), kF32, buffer);
  std::memcpy(buffer, p, part.n * sizeof(float));
  return hn::Load(kF32, buffer);
}

HWY_INLINE Vec load(const uint16_t* p, Tail part) {
  HWY_ALIGN uint16_t buffer[kLanes];
  store(hn::Set(kF32, part.pad), buffer);
  std::memcpy(buffer, p, part.n * sizeof(uint16_t));
  return load(buffer);
}

template <typename T>
HWY_INLINE void store(Vec v, T* p, Tail part) {
  HWY_ALIGN T buffer[kLanes];
  store(v, buffer);
  std::memcpy(p, buffer, part.n * sizeof(T));
}

template <typename T>
HWY_INLINE void store_rounded(Vec v, T* p, Tail part) {
  store(v, p, part);
}

/// Calls body(offset, slot, part) for [0, n) vector by vector. slot, a constant that cycles from 0 to 3,
/// selects one of four accumulators: four sums in flight hide the latency of an addition.
template <typename Body>
HWY_INLINE void for_each_vector(size_t n, Tail tail, const Body& body) {
  using Slot0 = std::integral_constant<size_t, 0>;
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    body(i, Slot0{}, Whole{});
    body(i + kLanes, std::integral_constant<size_t, 1>{}, Whole{});
    body(i + 2 * kLanes, std::integral_constant<size_t, 2>{}, Whole{});
    body(i + 3 * kLanes, std::integral_constant<size_t, 3>{}, Whole{});
  }
  for (; i + kLanes <= n; i += kLanes) body(i, Slot0{}, Whole{});
  if (i < n) body(i, Slot0{}, Tail{n - i, tail.pad});
}

template <typename Body>
HWY_INLINE void for_each_vector(size_t n, const Body& body) {
  for_each_vector(n, Tail{0, 0.0F}, body);
}

HWY_INLINE float sum_of(const Vec (&acc)[4]) {
  const Vec sum = hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3]));
  return hn::GetLane(hn::SumOfLanes(kF32, sum));
}

}  // namespace braid::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
