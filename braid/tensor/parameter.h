// A parameter: its value, and the main gradient that every microbatch adds into.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace braid::tensor {

/// Rows [begin, end) of a parameter and the name they have in files. A fused parameter (q, k and v in one
/// matrix) has several.
struct NamedRows {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
};

/// Owned by its layer; the optimizer and the files refer to it.
struct Parameter {
  std::string name;             ///< of the whole, unique in the model
  at::Tensor value;             ///< in the compute dtype: float32, bfloat16, or float64 in gradient tests
  at::Tensor main_grad;         ///< same shape; float32, or float64 for a float64 value
  bool decays = true;           ///< weight decay applies: matrices yes, norms and biases no
  std::vector<NamedRows> rows;  ///< covers all rows of `value`, in order

  /// False until the step's first microbatch has written main_grad. That one overwrites, the others add: no
  /// pass clears the gradients.
  bool gradient_started = false;
};

/// A parameter with undefined contents on the CPU or `options`' device, rows covered by the one name.
Parameter make_parameter(std::string name, at::IntArrayRef shape, at::TensorOptions options);

/// The dtype of main gradients and optimizer states for values of `value_dtype`.
at::ScalarType main_dtype(at::ScalarType value_dtype);

}  // namespace braid::tensor
