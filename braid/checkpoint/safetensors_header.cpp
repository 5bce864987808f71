#include "braid/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/checkpoint/json_text.h"

namespace braid::checkpoint {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr size_t kMaxDimensions = 64;  // ATen's own limit in several operators
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

constexpr std::array<std::pair<std::string_view, int64_t>, 17> kDtypes = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"U16", 2},
    {"U32", 4},
    {"U64", 8},
    {"C64", 8},
}};

std::string known_dtypes() {
  std::string names;
  for (const auto& [name, bytes] : kDtypes) {
    if (!names.empty()) names += ' ';
    names += name;
  }
  return names;
}

// Reads the header's JSON. The states form a fixed tree two levels deep, so deeper nesting is rejected at the
// third bracket.
class HeaderEvents final : public StrictEvents {
 public:
  explicit HeaderEvents(const std::string& file) : StrictEvents(file) {}

  SafetensorsHeader take() && { return std::move(header_); }

  bool start_object(size_t size) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == kMetadataKey) {
      state_ = State::kMetadata;
    } else if (state_ == State::kTop) {
      state_ = State::kTensor;
      header_.entries.push_back({.name = key_, .dtype = {}, .shape = {}});
      seen_fields_.clear();
      offsets_.clear();
    } else {
      StrictEvents::start_object(size);
    }
    return true;
  }

  bool key(string_t& name) override {
    if (state_ == State::kTop) {
      if (!seen_names_.insert(name).second) reject("the name ", printable(name), " appears twice");
      key_ = std::move(name);
    } else if (state_ == State::kMetadata) {
      if (header_.metadata.contains(name)) reject("the metadata key ", printable(name), " appears twice");
      field_ = std::move(name);
    } else {
      if (name != "dtype" && name != "shape" && name != "data_offsets") StrictEvents::key(name);
      if (!seen_fields_.insert(name).second) reject("tensor ", printable(key_), " has ", name, " twice");
      field_ = std::move(name);
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) finish_tensor();
    state_ = state_ == State::kTop ? State::kDone : State::kTop;
    return true;
  }

  bool start_array(size_t size) override {
    if (state_ == State::kTensor && field_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && field_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      StrictEvents::start_array(size);
    }
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      header_.metadata.emplace(field_, std::move(value));
    } else if (state_ == State::kTensor && field_ == "dtype") {
      if (!dtype_bytes(value))
        reject("tensor ", printable(key_), " has the unknown dtype ", printable(value), ", expected one of ",
               known_dtypes());
      header_.entries.back().dtype = std::move(value);
    } else {
      StrictEvents::string(value);
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kShape && state_ != State::kOffsets) StrictEvents::number_unsigned(value);
    std::vector<int64_t>& list = state_ == State::kShape ? header_.entries.back().shape : offsets_;
    const size_t longest = state_ == State::kShape ? kMaxDimensions : 2;
    if (list.size() == longest)
      reject("tensor ", printable(key_), " has more than ", longest, " numbers in its ", field_);
    if (value > static_cast<uint64_t>(kMax))
      reject("tensor ", printable(key_), " has ", value, " in its ", field_, ", beyond 63 bits");
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

 protected:
  std::string place() const override {
    if (state_ == State::kStart || state_ == State::kDone) return " in the header";
    if (state_ == State::kTop)
      return key_.empty() ? " in the header" : cat(" in the header, at or after ", printable(key_));
    return cat(" in the header, in ", printable(key_));
  }

 private:
  enum class State { kStart, kTop, kTensor, kShape, kOffsets, kMetadata, kDone };

  void finish_tensor() {
    TensorEntry& entry = header_.entries.back();
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!seen_fields_.contains(field)) reject("tensor ", printable(key_), " has no ", field);
    }
    if (offsets_.size() != 2)
      reject("tensor ", printable(key_), " has ", counted(std::ssize(offsets_), "data_offset"),
             " instead of 2");
    entry.begin_bytes = offsets_[0];
    entry.end_bytes = offsets_[1];
    if (entry.begin_bytes > entry.end_bytes) {
      reject("tensor ", printable(key_), " begins at ", entry.begin_bytes, " after its end at ",
             entry.end_bytes, " (data_offsets)");
    }
    // Sizes of 0 count as 1 here: strides are products of sizes too and must fit even if a tensor is empty.
    int64_t extent_bytes = dtype_bytes(entry.dtype).value();
    bool empty = false;
    for (const int64_t size : entry.shape) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(extent_bytes, std::max<int64_t>(size, 1), &extent_bytes)) {
        reject("tensor ", printable(key_), " has a shape whose product overflows 63 bits");
      }
    }
    const int64_t bytes = empty ? 0 : extent_bytes;
    if (bytes != entry.end_bytes - entry.begin_bytes) {
      reject("tensor ", printable(key_), " has ", counted(bytes, "byte"), " by its shape and dtype, but ",
             entry.end_bytes - entry.begin_bytes, " by its data_offsets [", entry.begin_bytes, ", ",
             entry.end_bytes, "]");
    }
  }

  SafetensorsHeader header_;
  State state_ = State::kStart;
  std::string key_;
  std::string field_;
  std::vector<int64_t> offsets_;
  std::set<std::string> seen_fields_;
  std::unordered_set<std::string> seen_names_;
};

// Entries, ordered by range, must be adjacent from 0 to the end of the data.
void check_ranges(const SafetensorsHeader& header, int64_t data_bytes, const std::string& file) {
  int64_t end_bytes = 0;
  std::string before = "the header";
  for (const TensorEntry& entry : header.entries) {
    const std::string range = cat(file, ": tensor ", printable(entry.name), " at bytes [", entry.begin_bytes,
                                  ", ", entry.end_bytes, ") of the data ");
    require<DataError>(entry.end_bytes <= data_bytes, range, "exceeds the file, which has ",
                       counted(data_bytes, "byte"),
                       " of data; the file is truncated or damaged: copy or download it again");
    require<DataError>(entry.begin_bytes >= end_bytes, range, "overlaps ", before, ", which ends at ",
                       end_bytes, "; the file is damaged: download it again");
    require<DataError>(entry.begin_bytes == end_bytes, range, "leaves a gap of ",
                       counted(entry.begin_bytes - end_bytes, "byte"), " after ", before,
                       "; the file is damaged: download it again");
    end_bytes = entry.end_bytes;
    before = printable(entry.name);
  }
  require<DataError>(end_bytes == data_bytes, file, ": has ", counted(data_bytes - end_bytes, "byte"),
                     " after its last tensor, which ends at byte ", end_bytes,
                     " of the data; the file is damaged: download it again");
}

}  // namespace

std::optional<int64_t> dtype_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                           const std::string& file) {
  require<DataError>(json.starts_with('{'), file,
                     ": the header does not begin with '{'; the file is damaged or not a safetensors file");
  HeaderEvents events(file);
  parse_strictly(json, file, events);
  SafetensorsHeader header = std::move(events).take();
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::tie(a.begin_bytes, a.end_bytes) < std::tie(b.begin_bytes, b.end_bytes);
                   });
  check_ranges(header, data_bytes, file);
  return header;
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::string json = "{";
  std::unordered_set<std::string_view> names = {kMetadataKey};
  if (!header.metadata.empty()) {
    json += json_string(kMetadataKey) + ":{";
    for (const auto& [key, value] : header.metadata) {
      if (json.back() != '{') json += ',';
      json += json_string(key) + ':' + json_string(value);
    }
    json += '}';
  }
  for (const TensorEntry& entry : header.entries) {
    require<InternalError>(names.insert(entry.name).second, "two tensors (or the metadata) are named ",
                           printable(entry.name));
    if (json.size() > 1) json += ',';
    json += json_string(entry.name) + ":{\"dtype\":" + json_string(entry.dtype) + ",\"shape\":[";
    for (size_t i = 0; i < entry.shape.size(); ++i) json += cat(i == 0 ? "" : ",", entry.shape[i]);
    json += cat("],\"data_offsets\":[", entry.begin_bytes, ",", entry.end_bytes, "]}");
  }
  json += '}';
  // Aligned data for readers that map the file.
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  return length + json;
}

}  // namespace braid::checkpoint
