// Bytes per second of every fused kernel and of the ATen composition that computes the same, at the sizes of
// a small Llama.
//
// Only bytes that must move are counted: each operand read once, each result written once. Run on one idle
// core:
//   OMP_NUM_THREADS=1 taskset -c 1 build/kernels_bench --benchmark_repetitions=5
//   --benchmark_report_aggregates_only=true
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <utility>

#include "braid/kernels/aten/kernels.h"
#include "braid/kernels/cpu/kernels.h"
#include "braid/tensor/memory.h"

namespace braid::kernels {
namespace {

constexpr int64_t kTokens = 512;
constexpr int64_t kHidden = 512;
constexpr int64_t kIntermediate = 1408;
constexpr int64_t kVocabulary = 8192;
constexpr int64_t kHeads = 8;
constexpr int64_t kParameters = int64_t{1} << 22;
constexpr double kEps = 1e-5;

void add(const std::string& name, double bytes, const std::function<void()>& work) {
  benchmark::RegisterBenchmark(name.c_str(), [bytes, work](benchmark::State& state) {
    for (auto _ : state) work();
    const double total_bytes = bytes * static_cast<double>(state.iterations());
    state.counters["GB/s"] = benchmark::Counter(total_bytes / 1e9, benchmark::Counter::kIsRate);
  })->Unit(benchmark::kMicrosecond);
}

// Both forms of one kernel, as "name/dtype/fused" and "name/dtype/aten".
void add_pair(const std::string& name, at::ScalarType dtype, double bytes, const std::function<void()>& fused,
              const std::function<void()>& aten) {
  const std::string full = name + (dtype == at::kFloat ? "/float32" : "/bfloat16");
  add(full + "/fused", bytes, fused);
  add(full + "/aten", bytes, aten);
}

void register_norm(at::ScalarType dtype) {
  const auto make = [&] { return at::randn({kTokens, kHidden}, dtype); };
  const at::Tensor x = make(), branch = make(), sum = make(), y = make(), dy = make();
  const at::Tensor weight = at::randn({kHidden}, dtype);
  const at::Tensor rstd = at::empty({kTokens});
  const at::Tensor main_grad = at::zeros({kHidden});
  const auto matrix_bytes = static_cast<double>(x.nbytes());
  cpu::rms_norm(x, weight, kEps, y, rstd);
  add_pair(
      "rms_norm", dtype, 2 * matrix_bytes, [=] { cpu::rms_norm(x, weight, kEps, y, rstd); },
      [=] { aten::rms_norm(x, weight, kEps, y, rstd); });
  add_pair(
      "add_rms_norm", dtype, 4 * matrix_bytes,
      [=] { cpu::add_rms_norm(x, branch, weight, kEps, sum, y, rstd); },
      [=] { aten::add_rms_norm(x, branch, weight, kEps, sum, y, rstd); });
  add_pair(
      "rms_norm_backward_input", dtype, 4 * matrix_bytes,
      [=] { cpu::rms_norm_backward_input(dy, x, weight, rstd, branch, y); },
      [=] { aten::rms_norm_backward_input(dy, x, weight, rstd, branch, y); });
  add_pair(
      "rms_norm_backward_weight", dtype, 2 * matrix_bytes,
      [=] { cpu::rms_norm_backward_weight(dy, x, rstd, main_grad, Accumulate::kAdd); },
      [=] { aten::rms_norm_backward_weight(dy, x, rstd, main_grad, Accumulate::kAdd); });
}

void register_rope(at::ScalarType dtype) {
  const int64_t head_dim = kHidden / kHeads;
  const RopeTable table = rope_table({.max_positions = kTokens, .head_dim = head_dim});
  const RopeShape shape = {.seq = kTokens, .query_heads = kHeads, .key_value_heads = kHeads};
  const at::Tensor qkv = at::randn({kTokens, 3 * kHidden}, dtype);
  const at::Tensor dq = at::randn({1, kHeads, kTokens, head_dim}, dtype);
  const at::Tensor dk = at::randn_like(dq), dv = at::randn_like(dq);
  const auto qkv_bytes = static_cast<double>(qkv.nbytes());
  add_pair(
      "rope_forward", dtype, 4.0 / 3 * qkv_bytes, [=] { cpu::rope_forward_(qkv, table, shape); },
      [=] { aten::rope_forward_(qkv, table, shape); });
  add_pair(
      "rope_backward_pack", dtype, 2 * qkv_bytes,
      [=] { cpu::rope_backward_pack(dq, dk, dv, table, shape, qkv); },
      [=] { aten::rope_backward_pack(dq, dk, dv, table, shape, qkv); });
}

void register_swiglu(at::ScalarType dtype) {
  const at::Tensor gate_up = at::randn({kTokens, 2 * kIntermediate}, dtype);
  const at::Tensor d_gate_up = at::empty_like(gate_up);
  const at::Tensor y = at::empty({kTokens, kIntermediate}, dtype);
  const at::Tensor dy = at::randn_like(y);
  const auto half_bytes = static_cast<double>(y.nbytes());
  add_pair(
      "swiglu", dtype, 3 * half_bytes, [=] { cpu::swiglu(gate_up, y); }, [=] { aten::swiglu(gate_up, y); });
  add_pair(
      "swiglu_backward", dtype, 6 * half_bytes, [=] { cpu::swiglu_backward(dy, gate_up, d_gate_up, y); },
      [=] { aten::swiglu_backward(dy, gate_up, d_gate_up, y); });
}

// The logits become gradients, whose softmax is uniform; no branch of the kernel depends on the values.
void register_cross_entropy(at::ScalarType dtype) {
  const at::Tensor logits = at::randn({kTokens, kVocabulary}, dtype);
  const at::Tensor targets = at::arange(kTokens);
  add_pair(
      "softmax_cross_entropy", dtype, 2 * static_cast<double>(logits.nbytes()),
      [=] { cpu::softmax_cross_entropy(logits, targets, 1.0); },
      [=] { aten::softmax_cross_entropy(logits, targets, 1.0); });
}

void register_optimizer(at::ScalarType dtype) {
  const at::Tensor master = at::randn({kParameters});
  const at::Tensor exp_avg = at::zeros_like(master), exp_avg_sq = at::zeros_like(master);
  const at::Tensor grad = at::randn_like(master);
  const at::Tensor value = dtype == at::kFloat ? master : master.to(dtype);
  const AdamWStep step = {.lr = 1e-6, .weight_decay = 0.1, .step = 10};
  const double bytes = 7 * static_cast<double>(master.nbytes()) +
                       (dtype == at::kFloat ? 0.0 : static_cast<double>(value.nbytes()));
  add_pair(
      "adamw", dtype, bytes, [=] { cpu::adamw_(master, exp_avg, exp_avg_sq, grad, value, step); },
      [=] { aten::adamw_(master, exp_avg, exp_avg_sq, grad, value, step); });
  add_pair(
      "block_squares", dtype, static_cast<double>(value.nbytes()),
      [=] { benchmark::DoNotOptimize(cpu::block_squares(value)); },
      [=] { benchmark::DoNotOptimize(aten::block_squares(value)); });
}

void register_embedding(at::ScalarType dtype) {
  const at::Tensor tokens = at::arange(kTokens) * 7919 % kVocabulary;
  const at::Tensor dy = at::randn({kTokens, kHidden}, dtype);
  const at::Tensor main_grad = at::zeros({kVocabulary, kHidden});
  const double bytes = static_cast<double>(dy.nbytes()) + 8.0 * kTokens * kHidden;
  add_pair(
      "embedding_backward", dtype, bytes,
      [=] { cpu::embedding_backward(tokens, dy, main_grad, Accumulate::kAdd); },
      [=] { aten::embedding_backward(tokens, dy, main_grad, Accumulate::kAdd); });
}

}  // namespace
}  // namespace braid::kernels

int main(int argc, char** argv) {
  braid::tensor::install_cpu_allocator();  // as in training: no page faults after the first call
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    braid::kernels::register_norm(dtype);
    braid::kernels::register_rope(dtype);
    braid::kernels::register_swiglu(dtype);
    braid::kernels::register_cross_entropy(dtype);
    braid::kernels::register_optimizer(dtype);
    braid::kernels::register_embedding(dtype);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
