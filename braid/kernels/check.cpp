#include "braid/kernels/check.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"

namespace braid::kernels {

std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  return cat(t.sizes(), " ", c10::toString(t.scalar_type()), " ", t.device());
}

at::ScalarType wide_dtype(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void require_floating(const at::Tensor& t, std::string_view name) {
  require<ShapeError>(t.defined(), name, " is undefined");
  require<ShapeError>(at::isFloatingType(t.scalar_type()), name,
                      " must be float32, bfloat16 or float64, got ", describe(t));
  require<ShapeError>(t.is_contiguous(), name, " must be contiguous, got ", describe(t), " with strides ",
                      t.strides());
}

void require_matrix(const at::Tensor& t, std::string_view name) {
  require_floating(t, name);
  require<ShapeError>(t.dim() == 2, name, " must have two dimensions, got ", describe(t));
}

void require_tensor(const at::Tensor& t, std::string_view name, at::IntArrayRef sizes, at::ScalarType dtype,
                    const at::Tensor& like) {
  require<ShapeError>(t.defined(), name, " is undefined");
  require<ShapeError>(t.sizes() == sizes && t.scalar_type() == dtype && t.device() == like.device(), name,
                      " must be ", sizes, " ", c10::toString(dtype), " ", like.device(), ", got ",
                      describe(t));
  require<ShapeError>(t.is_contiguous(), name, " must be contiguous, got ", describe(t), " with strides ",
                      t.strides());
}

}  // namespace braid::kernels
