// Speed of a linear layer's three products, for each way of computing them.
//
// Run on one idle core: OMP_NUM_THREADS=1 taskset -c 1 build/gemm_bench --benchmark_repetitions=5
//   --benchmark_report_aggregates_only=true
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <string>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/cpu/gemm.h"
#include "braid/tensor/memory.h"

namespace braid::kernels {
namespace {

struct Size {
  int64_t tokens, inputs, outputs;
};

void add(const Size& size, const std::string& name, const std::function<void()>& work) {
  const std::string full = name + "/T" + std::to_string(size.tokens) + "_K" + std::to_string(size.inputs) +
                           "_N" + std::to_string(size.outputs);
  const double flops = 2.0 * static_cast<double>(size.tokens * size.inputs * size.outputs);
  benchmark::RegisterBenchmark(full.c_str(), [flops, work](benchmark::State& state) {
    for (auto _ : state) work();
    const double total_flops = flops * static_cast<double>(state.iterations());
    state.counters["GFLOP/s"] = benchmark::Counter(total_flops / 1e9, benchmark::Counter::kIsRate);
  })->Unit(benchmark::kMillisecond);
}

void register_size(const Size& size) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::randn({size.tokens, size.inputs}, dtype);
    const at::Tensor weight = at::randn({size.outputs, size.inputs}, dtype);
    const at::Tensor dy = at::randn({size.tokens, size.outputs}, dtype);
    const at::Tensor y = at::empty_like(dy);
    const at::Tensor dx = at::empty_like(x);
    const at::Tensor main_grad = at::zeros({size.outputs, size.inputs});
    if (dtype == at::kFloat) {
      add(size, "float32/forward", [=] { aten::linear(x, weight, y); });
      add(size, "float32/input", [=] { aten::linear_backward_input(dy, weight, dx); });
      add(size, "float32/weight",
          [=] { aten::accumulate_weight_gradient(dy, x, main_grad, Accumulate::kAdd); });
      continue;
    }
    for (const cpu::Bf16Gemm how : {cpu::Bf16Gemm::kNative, cpu::Bf16Gemm::kFloat32}) {
      const std::string way = how == cpu::Bf16Gemm::kNative ? "bfloat16_native" : "bfloat16_through_float32";
      add(size, way + "/forward", [=] { cpu::linear(x, weight, y, how); });
      add(size, way + "/input", [=] { cpu::linear_backward_input(dy, weight, dx, how); });
      add(size, way + "/weight",
          [=] { cpu::accumulate_weight_gradient(dy, x, main_grad, Accumulate::kAdd, how); });
    }
  }
}

}  // namespace
}  // namespace braid::kernels

int main(int argc, char** argv) {
  braid::tensor::install_cpu_allocator();  // as in training: no page faults after the first call
  for (const braid::kernels::Size& size :
       {braid::kernels::Size{512, 512, 512}, braid::kernels::Size{512, 512, 1536},
        braid::kernels::Size{512, 512, 2816}, braid::kernels::Size{512, 1408, 512},
        braid::kernels::Size{512, 512, 8192}}) {
    braid::kernels::register_size(size);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
