// Time of an update whose states are in memory, in a file, or staged through buffers.
//
// The file is in the system's temporary directory: TMPDIR=/dev/shm measures the store without a disk. Run as
//   OMP_NUM_THREADS=1 build/state_store_bench --benchmark_repetitions=5
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <functional>

#include "braid/base/scratch_directory.h"
#include "braid/optim/adamw.h"
#include "braid/tensor/memory.h"

namespace braid::optim {
namespace {

constexpr int64_t kStatesBytes = int64_t{256} << 20;

/// Layers that become segments of 32 MiB of states each.
struct Weights {
  explicit Weights(at::ScalarType dtype) {
    const int64_t element_bytes = dtype == at::kFloat ? 8 : 12;  // of the states
    constexpr int64_t kSegments = 8;
    const int64_t numel = kStatesBytes / kSegments / element_bytes / 1024 * 1024;
    for (int64_t i = 0; i < kSegments; ++i)
      all.push_back(
          tensor::declare_parameter({tensor::whole_tensor(std::to_string(i), {numel / 1024, 1024})}));
    std::vector<tensor::LayerParameters> layers;
    for (tensor::Parameter& parameter : all)
      layers.push_back({.layer = parameter.name, .parameters = {&parameter}});
    segments = tensor::allocate_segments(tensor::lay_out_segments(layers, {.bytes = 1}, 4), dtype);
    for (const tensor::Segment& segment : segments) {
      segment.values.fill_(1);
      segment.gradients.fill_(1e-3);
    }
  }
  std::vector<tensor::Parameter> all;
  std::vector<tensor::Segment> segments;
};

using Maker = std::function<std::unique_ptr<StateStore>(const ScratchDirectory&)>;

void update(benchmark::State& state, at::ScalarType dtype, const Maker& make) {
  tensor::install_cpu_allocator();
  const ScratchDirectory directory;
  Weights weights(dtype);
  AdamW adamw(weights.segments, make(directory), {});
  const auto step = [&] {
    for (tensor::Parameter& parameter : weights.all) parameter.gradient_started = true;
    adamw.step(1e-4, 1.0);
  };
  step();
  for (auto _ : state) step();
  state.SetBytesProcessed(state.iterations() * kStatesBytes);
}

void register_all() {
  const std::pair<const char*, Maker> stores[] = {
      {"memory", [](const ScratchDirectory&) { return make_memory_store(); }},
      {"file",
       [](const ScratchDirectory& directory) { return make_file_store({.directory = directory.path()}); }},
      {"staged", [](const ScratchDirectory&) { return make_pinned_store(at::kCPU); }},
  };
  for (const auto& [dtype, dtype_name] :
       {std::pair(at::kFloat, "/float32"), std::pair(at::kBFloat16, "/bfloat16")}) {
    for (const auto& [name, make] : stores) {
      benchmark::RegisterBenchmark(
          (std::string(name) + dtype_name).c_str(),
          [dtype = dtype, make = make](benchmark::State& state) { update(state, dtype, make); })
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace braid::optim

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  braid::optim::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
