#include "braid/tensor/parameter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "braid/base/error.h"

namespace braid::tensor {

std::vector<int64_t> Parameter::sizes() const {
  std::vector<int64_t> result = slices.at(0).sizes();
  for (size_t i = 1; i < slices.size(); ++i) result[0] += slices[i].part[0].size();
  return result;
}

int64_t Parameter::numel() const {
  int64_t sum = 0;
  for (const TensorSlice& slice : slices) sum += slice.numel();
  return sum;
}

Parameter declare_parameter(std::vector<TensorSlice> slices, std::string name) {
  require<ShapeError>(!slices.empty(), "parameter ", name, " contains no tensor");
  for (const TensorSlice& slice : slices) {
    validate(slice);
    const std::vector<int64_t> expected = slices.front().sizes(), got = slice.sizes();
    require<ShapeError>(slices.size() == 1 || (!got.empty() && got.size() == expected.size() &&
                                               std::equal(got.begin() + 1, got.end(), expected.begin() + 1)),
                        "parameter ", name, ": ", to_string(slices.front()), " and ", to_string(slice),
                        " differ in more than their first dimension");
  }
  Parameter parameter;
  parameter.name = name.empty() ? slices.front().name : std::move(name);
  parameter.decays = slices.front().whole.size() > 1;
  parameter.initial = parameter.decays ? InitialValues::kNormal : InitialValues::kOnes;
  parameter.slices = std::move(slices);
  return parameter;
}

std::vector<SliceValues> slices_of(const Parameter& parameter) {
  require<InternalError>(parameter.value.defined(), "parameter ", parameter.name, " has no memory yet");
  std::vector<SliceValues> result;
  if (parameter.slices.size() == 1) return {{parameter.slices.front(), parameter.value}};
  int64_t begin = 0;
  for (const TensorSlice& slice : parameter.slices) {
    const int64_t rows = slice.part[0].size();
    result.push_back({slice, parameter.value.narrow(0, begin, rows)});
    begin += rows;
  }
  return result;
}

bool is_tied(const Parameter& a, const Parameter& b) { return &a != &b && a.slices == b.slices; }

at::ScalarType main_dtype(at::ScalarType value_dtype) {
  return value_dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace braid::tensor
