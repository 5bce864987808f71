// Messages between two processes over loopback: latency, bandwidth in one and in both directions, and the
// cost of waiting. Rank 1 is forked before any libtorch code runs, and answers until rank 0 closes.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "braid/comm/address.h"
#include "braid/comm/pipeline_link.h"
#include "braid/comm/store.h"

namespace braid::comm {
namespace {

constexpr MessageFormat kControl = {at::kLong, 2};
constexpr std::array kSizes = {int64_t{1}, int64_t{1} << 14, int64_t{1} << 18,
                               int64_t{1} << 22};  // in floats: 4 B to 16 MiB
enum class Part : int64_t { kEcho, kTake, kBothWays, kLater, kEnd };

std::unique_ptr<PipelineLink> connect(int rank, int port, std::optional<int> listener,
                                      c10::intrusive_ptr<c10d::Store>& store) {
  const World world = {.rank = rank,
                       .world_size = 2,
                       .local_rank = rank,
                       .local_world_size = 2,
                       .master_port = port,
                       .master_listen_fd = listener};
  store = connect_store(world, std::chrono::seconds(60));
  std::vector<MessageFormat> formats = {kControl};
  for (const int64_t size : kSizes) formats.push_back({at::kFloat, size});
  return std::make_unique<PipelineLink>(store, Group{.axis = "pp", .ranks = {0, 1}, .index = rank},
                                        PipelineLinkOptions{.backend = {}, .formats = formats, .edges = {}});
}

void move(Pending pending) {
  pending.wait([] { return "a message of the benchmark"; });
}

void send(PipelineLink& link, const at::Tensor& tensor, int peer) {
  move(link.send(tensor, peer, MessageKind::kActivation, 0));
}
void receive(PipelineLink& link, at::Tensor& into, int peer) {
  move(link.receive(into, peer, MessageKind::kActivation, 0));
}

void exchange(PipelineLink& link, const at::Tensor& out, at::Tensor& in, int peer) {
  Pending sent = link.send(out, peer, MessageKind::kActivation, 0);
  receive(link, in, peer);
  move(std::move(sent));
}

// Rank 1: plays the requested part with messages of the requested size until one begins with a negative
// number.
void answer(PipelineLink& link) {
  at::Tensor control = at::zeros({kControl.numel}, kControl.dtype);
  for (;;) {
    receive(link, control, 0);
    const auto part = static_cast<Part>(control[0].item<int64_t>());
    if (part == Part::kEnd) return;
    if (part == Part::kLater) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      send(link, at::zeros({1}), 0);
      continue;
    }
    at::Tensor in = at::zeros({control[1].item<int64_t>()});
    const at::Tensor out = at::zeros_like(in);
    do {
      if (part == Part::kBothWays) {
        exchange(link, out, in, 0);
      } else {
        receive(link, in, 0);
        if (part == Part::kEcho) send(link, out, 0);
      }
    } while (in.data_ptr<float>()[0] >= 0);
  }
}

void tell(PipelineLink& link, Part part, int64_t size) {
  send(link, at::tensor({static_cast<int64_t>(part), size}, at::kLong), 1);
}

void play(benchmark::State& state, PipelineLink& link, Part part) {
  const int64_t size = state.range(0);
  at::Tensor out = at::zeros({size});
  at::Tensor in = at::zeros({size});
  const auto once = [&] {
    if (part == Part::kBothWays) {
      exchange(link, out, in, 1);
    } else {
      send(link, out, 1);
      if (part == Part::kEcho) receive(link, in, 1);
    }
  };
  tell(link, part, size);
  for (auto step : state) once();
  out.fill_(-1);
  once();
  const int64_t messages = part == Part::kTake ? 1 : 2;
  state.SetBytesProcessed(state.iterations() * messages * size * 4);
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A second of waiting for a message: measures the processor time of all threads of this process.
void wait_a_second(benchmark::State& state, PipelineLink& link) {
  at::Tensor in = at::zeros({1});
  double cpu = 0;
  for (auto step : state) {
    const double before = cpu_seconds();
    tell(link, Part::kLater, 0);
    receive(link, in, 1);
    cpu += cpu_seconds() - before;
  }
  state.counters["cpu_ms_per_s"] = 1000.0 * cpu / static_cast<double>(state.iterations());
}

int run(int argc, char** argv) {
  FileDescriptor listener = listen_on("127.0.0.1", 0);
  const int port = bound_port(listener.get());
  const pid_t child = ::fork();
  c10::intrusive_ptr<c10d::Store> store;
  if (child == 0) {
    const auto link = connect(1, port, std::nullopt, store);
    answer(*link);
    ::_exit(0);
  }
  const auto link = connect(0, port, listener.release(), store);
  benchmark::Initialize(&argc, argv);
  for (const auto& [name, part] :
       {std::pair{"there_and_back", Part::kEcho}, std::pair{"one_way", Part::kTake},
        std::pair{"both_ways_at_once", Part::kBothWays}}) {
    auto* one = benchmark::RegisterBenchmark(
        name, [&link, part](benchmark::State& state) { play(state, *link, part); });
    for (const int64_t size : kSizes) one->Arg(size);
    one->UseRealTime();
  }
  benchmark::RegisterBenchmark("waiting", [&link](benchmark::State& state) { wait_a_second(state, *link); })
      ->Iterations(3)
      ->UseRealTime();
  benchmark::RunSpecifiedBenchmarks();
  tell(*link, Part::kEnd, 0);
  ::waitpid(child, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace braid::comm

int main(int argc, char** argv) { return braid::comm::run(argc, argv); }
