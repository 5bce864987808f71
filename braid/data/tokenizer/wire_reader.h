// Protocol buffers' wire format, in which SentencePiece stores its models.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::data::wire {

struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of any other field
};

/// Reads the fields of a message in their order: varints, 4- and 8-byte numbers, and length-delimited bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  /// The next field, or nothing if the bytes are not one. To be called only before the end.
  std::optional<Field> next() {
    const auto key = varint();
    if (!key) return std::nullopt;
    Field field{.number = *key >> 3, .bytes = {}};
    uint64_t length = 0;
    switch (*key & 7) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
        length = 8;
        break;
      case 2: {
        const auto value = varint();
        if (!value) return std::nullopt;
        length = *value;
        break;
      }
      case 5:
        length = 4;
        break;
      default:
        return std::nullopt;
    }
    if (length > rest_.size()) return std::nullopt;
    field.bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return field;
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

}  // namespace braid::data::wire
