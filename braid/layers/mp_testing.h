// For tests of tensor parallelism: the ranks' parts of activations and parameters, and the whole from its
// parts.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "braid/base/random.h"
#include "braid/layers/layer.h"
#include "braid/layers/placement.h"

namespace braid::layers::testing {

/// Normal values that depend only on the sizes and the seed.
inline at::Tensor normal(at::IntArrayRef sizes, uint64_t seed, double mean = 0, double deviation = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::normal(mean, deviation, sizes, generator, at::kDouble);
}

/// The part of a whole tensor that `slice` names.
inline at::Tensor part_of(const at::Tensor& whole, const tensor::TensorSlice& slice) {
  at::Tensor part = whole;
  for (size_t i = 0; i < slice.part.size(); ++i)
    part = part.narrow(static_cast<int64_t>(i), slice.part[i].begin, slice.part[i].size());
  return part;
}

/// Fills allocated parameters with parts of tensors that depend on their names only, rounded to `dtype` (norm
/// weights are around 1).
inline void fill_by_name(Layer& layer, at::ScalarType dtype) {
  for (const tensor::Parameter* parameter : parameters_of(layer)) {
    for (const tensor::SliceValues& held : tensor::slices_of(*parameter)) {
      const double mean = held.slice.whole.size() == 1 ? 1 : 0;
      const at::Tensor whole = normal(held.slice.whole, seed_for(1, held.slice.name), mean, 0.1);
      held.values.copy_(part_of(whole, held.slice).to(dtype));
    }
  }
}

/// A rank's rows of an activation [b, s, N]: all, or its part with sequence parallelism.
inline at::Tensor own_rows(const at::Tensor& whole, const Placement& place) {
  if (!place.sequence_parallel || !whole.defined()) return whole;
  const int64_t rows = whole.size(0) * whole.size(1) / place.mp_degree;
  return whole.view({-1, whole.size(2)})
      .narrow(0, place.mp_index * rows, rows)
      .reshape({whole.size(0), whole.size(1) / place.mp_degree, whole.size(2)});
}

/// The rows [T, N] of all ranks. Without sequence parallelism all must be the same bits.
inline at::Tensor all_rows(const std::vector<at::Tensor>& of_ranks, bool sequence_parallel) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& own : of_ranks) {
    rows.push_back(own.view({-1, own.size(-1)}));
    EXPECT_TRUE(sequence_parallel || at::equal(rows.back(), rows.front()));
  }
  return sequence_parallel ? at::cat(rows) : rows.front();
}

/// Copies of a layer's parameters whose gradients no longer change.
inline std::vector<tensor::Parameter> snapshot(Layer& layer) {
  std::vector<tensor::Parameter> copies;
  for (const tensor::Parameter* parameter : parameters_of(layer)) {
    copies.push_back(*parameter);
    copies.back().main_grad = parameter->main_grad.clone();
  }
  return copies;
}

/// Whole tensors, in float64, by name.
using Whole = std::map<std::string, at::Tensor>;

/// The whole gradients from the main gradients of all ranks' parameters, put together as Parameter::copies
/// and partial_over say. Expects complete copies to be the same bits, and every element to be held exactly
/// once.
inline Whole whole_gradients(const std::vector<std::vector<tensor::Parameter>>& of_ranks) {
  Whole sums, counts;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (size_t i = 0; i < of_ranks[rank].size(); ++i) {
      tensor::Parameter parameter = of_ranks[rank][i];
      const size_t first = rank - rank % static_cast<size_t>(parameter.copies);
      const bool is_complete = parameter.partial_over == 1;
      EXPECT_TRUE(is_complete || parameter.partial_over == parameter.copies) << parameter.name;
      if (is_complete) {
        EXPECT_TRUE(at::equal(parameter.main_grad, of_ranks[first][i].main_grad)) << parameter.name;
      }
      parameter.value = parameter.main_grad;
      for (const tensor::SliceValues& held : tensor::slices_of(parameter)) {
        at::Tensor& sum = sums[held.slice.name];
        at::Tensor& count = counts[held.slice.name];
        if (!sum.defined()) {
          sum = at::zeros(held.slice.whole, at::kDouble);
          count = at::zeros(held.slice.whole, at::kLong);
        }
        if (rank == first) part_of(count, held.slice).add_(1);
        if (rank == first || !is_complete) part_of(sum, held.slice).add_(held.values.to(at::kDouble));
      }
    }
  }
  for (const auto& [name, count] : counts) EXPECT_TRUE(count.eq(1).all().item<bool>()) << name;
  return sums;
}

}  // namespace braid::layers::testing
