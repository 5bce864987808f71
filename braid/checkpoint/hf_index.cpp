#include "braid/checkpoint/hf_index.h"

#include "braid/base/error.h"
#include "braid/checkpoint/json_text.h"

namespace braid::checkpoint {
namespace {

// Reads the index. Everything but the weight map (sizes, additions of newer tools) is skipped, to a bounded
// depth.
class IndexEvents final : public StrictEvents {
 public:
  explicit IndexEvents(const std::string& file) : StrictEvents(file) {}

  WeightMap take() && {
    if (map_.empty()) reject("has no weight_map or an empty one");
    return std::move(map_);
  }

  bool start_object(size_t size) override {
    if (depth_ == 1 && key_ == kWeightMap) {
      in_map_ = true;
    } else if (in_map_) {
      StrictEvents::start_object(size);
    }
    return descend();
  }
  bool start_array(size_t size) override {
    if (expects_map()) StrictEvents::start_array(size);
    return descend();
  }
  bool end_object() override {
    in_map_ = false;
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (in_map_) {
      if (map_.contains(name)) reject("lists ", printable(name), " twice");
      tensor_ = std::move(name);
    } else if (depth_ == 1) {
      if (name == kWeightMap && seen_map_) reject("has two weight_maps");
      seen_map_ = seen_map_ || name == kWeightMap;
      key_ = std::move(name);
    }
    return true;
  }
  bool string(string_t& value) override {
    if (in_map_) {
      check_shard(value);
      map_.emplace(tensor_, std::move(value));
    } else if (expects_map()) {
      StrictEvents::string(value);
    }
    return true;
  }

  bool null() override { return expects_map() ? StrictEvents::null() : true; }
  bool boolean(bool value) override { return expects_map() ? StrictEvents::boolean(value) : true; }
  bool number_integer(number_integer_t value) override {
    return expects_map() ? StrictEvents::number_integer(value) : true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return expects_map() ? StrictEvents::number_unsigned(value) : true;
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return expects_map() ? StrictEvents::number_float(value, text) : true;
  }

 protected:
  std::string place() const override {
    return in_map_ ? cat(" in the weight_map, at or after ", printable(tensor_)) : "";
  }

 private:
  static constexpr const char* kWeightMap = "weight_map";
  static constexpr int kMaxDepth = 32;

  // Whether the next value is the weight map or part of it.
  bool expects_map() const { return in_map_ || (depth_ == 1 && key_ == kWeightMap); }

  bool descend() {
    if (++depth_ > kMaxDepth) reject("is nested more than ", kMaxDepth, " levels deep");
    return true;
  }

  void check_shard(const std::string& shard) const {
    constexpr std::string_view kEnding = ".safetensors";
    const bool plain = shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      reject("names the shard ", printable(shard), " for ", printable(tensor_),
             "; only files in the same directory are allowed");
    }
    if (!shard.ends_with(kEnding) || shard.size() == kEnding.size()) {
      reject("names the shard ", printable(shard), " for ", printable(tensor_),
             "; only .safetensors files are allowed");
    }
  }

  WeightMap map_;
  int depth_ = 0;
  bool in_map_ = false;
  bool seen_map_ = false;
  std::string key_;
  std::string tensor_;
};

}  // namespace

WeightMap parse_hf_index(std::string_view json, const std::string& file) {
  IndexEvents events(file);
  parse_strictly(json, file, events);
  return std::move(events).take();
}

std::string format_hf_index(const WeightMap& map, int64_t total_bytes) {
  std::string json =
      cat("{\n  \"metadata\": {\n    \"total_size\": ", total_bytes, "\n  },\n  \"weight_map\": {");
  const char* separator = "\n    ";
  for (const auto& [tensor, shard] : map) {
    json += separator + json_string(tensor) + ": " + json_string(shard);
    separator = ",\n    ";
  }
  return json + "\n  }\n}\n";
}

}  // namespace braid::checkpoint
