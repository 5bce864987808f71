// A parameter: what it is in the model's files, its value, and the main gradient that every microbatch adds
// into.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "braid/tensor/tensor_slice.h"

namespace braid::tensor {

/// How a parameter's values begin.
enum class InitialValues {
  kNormal,  ///< normal, with the model's deviation
  kOnes,
  kGiven,  ///< those of Parameter::leaf
};

/// Owned by its layer; segments, the optimizer and the files refer to it. A layer only declares its
/// parameters: they have values and gradients once allocate_segments has made room for them.
struct Parameter {
  std::string name;                 ///< of the whole, unique in the model
  std::vector<TensorSlice> slices;  ///< what it holds of which tensors, one after another along dimension 0
  bool decays = true;               ///< weight decay applies: matrices yes, norms and biases no
  InitialValues initial = InitialValues::kNormal;
  bool gradient_in_forward = false;  ///< F alone makes its gradient, as a head does that has the loss there
  at::Tensor leaf;  ///< a tensor of somebody else's (a torch module's) that is to share the value's memory

  at::Tensor value;      ///< in the compute dtype: float32, bfloat16, or float64 in gradient tests
  at::Tensor main_grad;  ///< same shape; float32, or float64 for a float64 value

  /// False until the step's first microbatch has written main_grad. That one overwrites, the others add: no
  /// pass clears the gradients.
  bool gradient_started = false;

  std::vector<int64_t> sizes() const;
  int64_t numel() const;
};

/// A parameter without memory that holds `slices`: matrices decay and begin normal, vectors do not decay and
/// begin as ones. `name` may be empty where there is one slice: then it is the slice's. Throws ShapeError
/// unless the slices agree in all dimensions but the first.
Parameter declare_parameter(std::vector<TensorSlice> slices, std::string name = "");

/// A slice and where its values are.
struct SliceValues {
  TensorSlice slice;
  at::Tensor values;  ///< of the slice's sizes, a contiguous view of the parameter's value
};

/// The slices of an allocated parameter, in order.
std::vector<SliceValues> slices_of(const Parameter& parameter);

/// Whether both hold the same part of the same tensors: a weight that two layers use.
bool is_tied(const Parameter& a, const Parameter& b);

/// The dtype of main gradients and optimizer states for values of `value_dtype`.
at::ScalarType main_dtype(at::ScalarType value_dtype);

}  // namespace braid::tensor
