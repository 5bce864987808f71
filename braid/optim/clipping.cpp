#include "braid/optim/clipping.h"

#include <algorithm>
#include <cmath>

#include "braid/kernels/reduce.h"

namespace braid::optim {

std::vector<double> squared_norms(const std::vector<tensor::Parameter*>& parameters) {
  std::vector<double> norms;
  norms.reserve(parameters.size());
  for (const tensor::Parameter* parameter : parameters)
    norms.push_back(kernels::squared_norm(parameter->main_grad));
  return norms;
}

double gradient_norm(std::span<const double> squared_norms) {
  double sum = 0;
  for (const double norm : squared_norms) sum += norm;
  return std::sqrt(sum);
}

double clip_coefficient(double norm, double max_norm) {
  constexpr double kEpsilon = 1e-6;
  return max_norm == 0 ? 1.0 : std::min(1.0, max_norm / (norm + kEpsilon));
}

}  // namespace braid::optim
