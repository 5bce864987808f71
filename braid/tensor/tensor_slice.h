// Identifies a part of a tensor: the one description that initialisation, files and resharding share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace braid::tensor {

/// [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// A rectangular part of a tensor of the model, of any number of dimensions.
struct TensorSlice {
  std::string name;            ///< of the tensor, as in files
  std::vector<int64_t> whole;  ///< sizes of the tensor
  std::vector<Range> part;     ///< one for each dimension

  std::vector<int64_t> sizes() const;  ///< of the part
  int64_t numel() const;               ///< of the part
  bool is_whole() const;
  bool operator==(const TensorSlice&) const = default;
};

/// All of a tensor.
TensorSlice whole_tensor(std::string name, std::vector<int64_t> sizes);

/// Throws ShapeError, which names the tensor, unless every range lies within its dimension.
void validate(const TensorSlice& slice);

/// "lm_head.weight", or "lm_head.weight[0:8, 4:16]" if it is not the whole tensor.
std::string to_string(const TensorSlice& slice);

/// Elements that are consecutive both in the part and in the whole, each regarded as a contiguous tensor.
struct ElementRun {
  int64_t begin_in_part = 0;
  int64_t begin_in_whole = 0;
  int64_t count = 0;
};

/// Calls `visit` with the slice's runs in the order of the part; each is as long as possible, so a whole
/// tensor is one run.
void for_each_run(const TensorSlice& slice, const std::function<void(const ElementRun&)>& visit);

}  // namespace braid::tensor
