#include "braid/tensor/parameter.h"

#include <ATen/ATen.h>

namespace braid::tensor {

at::ScalarType main_dtype(at::ScalarType value_dtype) {
  return value_dtype == at::kDouble ? at::kDouble : at::kFloat;
}

Parameter make_parameter(std::string name, at::IntArrayRef shape, at::TensorOptions options) {
  Parameter parameter;
  parameter.value = at::empty(shape, options);
  parameter.main_grad = at::empty(shape, options.dtype(main_dtype(parameter.value.scalar_type())));
  parameter.decays = shape.size() > 1;
  parameter.rows = {{name, 0, shape.empty() ? 1 : shape[0]}};
  parameter.name = std::move(name);
  return parameter;
}

}  // namespace braid::tensor
