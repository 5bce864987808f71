// Weights that no computation can use, found while they are read.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace braid::checkpoint {

struct UnfitValue {
  int64_t index = 0;  ///< of the element
  double value = 0;
};

/// The first element of `bytes`, packed numbers of dtype `type`, that is NaN or infinite, or becomes infinite
/// when rounded to `wanted`; nothing if there is none, or if `type` is not a floating-point type of the
/// safetensors format. A single pass at the speed of memory.
std::optional<UnfitValue> first_unfit_value(std::span<const std::byte> bytes, c10::ScalarType type,
                                            c10::ScalarType wanted);

}  // namespace braid::checkpoint
