// For tests: parameters of several segments, with values and gradients.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "braid/tensor/segment.h"

namespace braid::optim {

/// A matrix and a vector per segment; no two segments next to each other have the same size.
struct TestParameters {
  TestParameters(size_t segment_count, at::ScalarType dtype, int64_t rows = 19) {
    for (size_t i = 0; i < segment_count; ++i) {
      const int64_t columns = 16 * (1 + static_cast<int64_t>(i * 3 % 4));
      const std::string name = std::to_string(i);
      all.push_back(tensor::declare_parameter({tensor::whole_tensor(name + ".matrix", {rows, columns})}));
      all.push_back(tensor::declare_parameter({tensor::whole_tensor(name + ".vector", {columns + 3})}));
    }
    std::vector<tensor::LayerParameters> layers;
    for (size_t i = 0; i < segment_count; ++i)
      layers.push_back({.layer = std::to_string(i), .parameters = {&all[2 * i], &all[2 * i + 1]}});
    // A segment ends with each layer.
    segments = tensor::allocate_segments(tensor::lay_out_segments(layers, {.bytes = 1}, 4), dtype);
    for (tensor::Parameter& parameter : all) parameter.value.copy_(normal(parameter, 1));
  }

  void set_gradients(uint64_t seed) {
    for (tensor::Parameter& parameter : all) {
      parameter.main_grad.copy_(normal(parameter, seed));
      parameter.gradient_started = true;
    }
  }

  std::vector<tensor::Parameter> all;
  std::vector<tensor::Segment> segments;

 private:
  static at::Tensor normal(const tensor::Parameter& parameter, uint64_t seed) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return at::normal(0.0, 1.0, parameter.sizes(), generator, at::kDouble);
  }
};

}  // namespace braid::optim
