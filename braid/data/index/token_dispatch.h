// Dispatch from a token type to the corresponding C++ type.
#pragma once

#include <cstdint>
#include <utility>

#include "braid/base/error.h"
#include "braid/data/index/indexed_file.h"

namespace braid::data {

/// body(T{}) for the integer type of `type`. The result type must not depend on T.
template <typename Body>
decltype(auto) dispatch(TokenType type, Body&& body) {
  switch (type) {
    case TokenType::kU8:
      return std::forward<Body>(body)(uint8_t{});
    case TokenType::kI8:
      return std::forward<Body>(body)(int8_t{});
    case TokenType::kI16:
      return std::forward<Body>(body)(int16_t{});
    case TokenType::kI32:
      return std::forward<Body>(body)(int32_t{});
    case TokenType::kI64:
      return std::forward<Body>(body)(int64_t{});
    case TokenType::kU16:
      return std::forward<Body>(body)(uint16_t{});
    case TokenType::kU32:
      return std::forward<Body>(body)(uint32_t{});
    case TokenType::kU64:
      return std::forward<Body>(body)(uint64_t{});
  }
  throw InternalError(cat("token type ", static_cast<int>(type), " does not exist"));
}

}  // namespace braid::data
