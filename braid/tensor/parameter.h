// A parameter: what it is in the model's files, its value, and the main gradient to which every microbatch
// adds.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "braid/tensor/tensor_slice.h"

namespace braid::tensor {

/// How a parameter's values are initialised.
enum class InitialValues {
  kNormal,  ///< normal, with the model's deviation
  kOnes,
  kGiven,  ///< those of Parameter::leaf
};

/// Owned by its layer; segments, the optimizer and the files refer to it. A layer only declares its
/// parameters: they have values and gradients once allocate_segments has allocated them.
struct Parameter {
  std::string name;                 ///< of the whole, unique in the model
  std::vector<TensorSlice> slices;  ///< its parts of which tensors, concatenated along dimension 0
  bool decays = true;               ///< weight decay applies: matrices yes, norms and biases no
  InitialValues initial = InitialValues::kNormal;
  bool gradient_in_forward = false;  ///< F alone computes its gradient, as in a head with the loss

  /// How many neighbouring ranks of the tensor-parallel (mp) group hold the same values: those whose index
  /// divided by `copies` is equal. All but the first of them are left out of the global norm.
  int32_t copies = 1;
  /// Over how many neighbouring ranks of the mp group, likewise, main_grad is a partial sum at the end of a
  /// step: it must be summed over them before use. 1: it is complete, and the same bits on all copies.
  int32_t partial_over = 1;

  at::Tensor leaf;  ///< another owner's tensor (a torch module's) that is to share the value's memory

  at::Tensor value;      ///< in the compute dtype: float32, bfloat16, or float64 in gradient tests
  at::Tensor main_grad;  ///< same shape; float32, or float64 for a float64 value

  /// False until the step's first microbatch has written main_grad. The first overwrites, the others add, so
  /// no pass clears the gradients.
  bool gradient_started = false;

  std::vector<int64_t> sizes() const;
  int64_t numel() const;
};

/// A parameter without memory that holds `slices`: matrices decay and have normal initial values, vectors do
/// not decay and begin as ones. `name` may be empty if there is one slice, and is then the slice's. Throws
/// ShapeError unless the slices agree in all dimensions but the first.
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
