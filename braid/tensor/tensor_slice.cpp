#include "braid/tensor/tensor_slice.h"

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::tensor {

std::vector<int64_t> TensorSlice::sizes() const {
  std::vector<int64_t> result;
  for (const Range& range : part) result.push_back(range.size());
  return result;
}

int64_t TensorSlice::numel() const {
  int64_t product = 1;
  for (const Range& range : part) product *= range.size();
  return product;
}

bool TensorSlice::is_whole() const { return *this == whole_tensor(name, whole); }

TensorSlice whole_tensor(std::string name, std::vector<int64_t> sizes) {
  TensorSlice slice = {.name = std::move(name), .whole = std::move(sizes), .part = {}};
  for (const int64_t size : slice.whole) slice.part.push_back({0, size});
  return slice;
}

void validate(const TensorSlice& slice) {
  require<ShapeError>(slice.part.size() == slice.whole.size(), slice.name, " has ", slice.whole.size(),
                      " dimensions, but its slice has ", slice.part.size());
  for (size_t i = 0; i < slice.whole.size(); ++i) {
    const Range& range = slice.part[i];
    require<ShapeError>(0 <= range.begin && range.begin <= range.end && range.end <= slice.whole[i],
                        slice.name, ": [", range.begin, ", ", range.end, ") is not within dimension ", i,
                        " of size ", slice.whole[i]);
  }
}

std::string to_string(const TensorSlice& slice) {
  if (slice.is_whole()) return slice.name;
  std::string text = slice.name + "[";
  for (size_t i = 0; i < slice.part.size(); ++i) {
    text += cat(i == 0 ? "" : ", ", slice.part[i].begin, ":", slice.part[i].end);
  }
  return text + "]";
}

void for_each_run(const TensorSlice& slice, const std::function<void(const ElementRun&)>& visit) {
  validate(slice);
  const int64_t total = slice.numel();
  if (total == 0) return;
  // The part covers all dimensions after `first` completely: a run covers them and `first` together.
  size_t first = slice.whole.size();
  int64_t count = 1;
  while (first > 0) {
    --first;
    count *= slice.part[first].size();
    if (slice.part[first].size() != slice.whole[first]) break;
  }
  std::vector<int64_t> index;  // of the part, in the dimensions before `first`
  index.resize(first, 0);
  for (int64_t begin = 0; begin < total; begin += count) {
    int64_t in_whole = 0;
    for (size_t i = 0; i < slice.whole.size(); ++i) {
      in_whole = in_whole * slice.whole[i] + slice.part[i].begin + (i < first ? index[i] : 0);
    }
    visit({.begin_in_part = begin, .begin_in_whole = in_whole, .count = count});
    for (size_t i = first; i-- > 0;) {
      if (++index[i] < slice.part[i].size()) break;
      index[i] = 0;
    }
  }
}

}  // namespace braid::tensor
