#include "braid/report/protobuf.h"

#include <bit>

namespace braid::report {

ProtoMessage& ProtoMessage::integer(uint32_t field, int64_t value) {
  tag(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::real(uint32_t field, double value) {
  tag(field, kFixed64);
  bytes_ += little_endian(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtoMessage& ProtoMessage::single(uint32_t field, float value) {
  tag(field, kFixed32);
  bytes_ += little_endian(std::bit_cast<uint32_t>(value), 4);
  return *this;
}

ProtoMessage& ProtoMessage::text(uint32_t field, std::string_view value) {
  tag(field, kLengthDelimited);
  varint(value.size());
  bytes_ += value;
  return *this;
}

// Seven bits a byte, the lowest first; the top bit says that more follow.
void ProtoMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

std::string little_endian(uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

}  // namespace braid::report
