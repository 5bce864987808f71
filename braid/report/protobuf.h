// Writes protocol buffers (protobuf.dev/programming-guides/encoding), without their library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid::report {

/// A message under construction. Fields are appended in the order of the calls; one that should have its
/// default value is left out by the caller.
class ProtoMessage {
 public:
  /// int32, int64, uint64, bool or enum; negative values are sign-extended, as int32 and int64 require.
  ProtoMessage& integer(uint32_t field, int64_t value);
  ProtoMessage& real(uint32_t field, double value);
  ProtoMessage& single(uint32_t field, float value);
  /// string or bytes.
  ProtoMessage& text(uint32_t field, std::string_view value);
  ProtoMessage& message(uint32_t field, const ProtoMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void varint(uint64_t value);
  void tag(uint32_t field, WireType type) { varint(field << 3 | type); }

  std::string bytes_;
};

/// `value` as `width` bytes, the lowest first.
std::string little_endian(uint64_t value, int width);

}  // namespace braid::report
