#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <chrono>
#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"
namespace braid::comm {
namespace {
TEST(ZZ, Latency) {
  for (int n : {2, 4})
    for (int64_t count : {64, 1 << 20})
      run_ranks(n, [n, count](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        const Group group = group_of_all(world, "dp");
        BackendOptions o{.timeout = std::chrono::seconds(30)};
        Communicator axis(store, group, o, CallCheck::kOff);
        auto raw = connect_backend(store, "raw", group, o);
        const int repeats = count < 1000 ? 3000 : 30;
        at::Tensor t = at::ones({count}, at::kFloat);
        auto time = [&](const char* name, auto f) {
          for (int i = 0; i < repeats / 10; ++i) f();
          axis.barrier().wait();
          auto b = std::chrono::steady_clock::now();
          for (int i = 0; i < repeats; ++i) f();
          auto s = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - b).count() /
                   repeats;
          if (world.rank == 0) std::printf("n=%d count=%ld %s %.1f us\n", n, (long)count, name, s);
        };
        for (int k = 0; k < 2; ++k) {
          time("old gather", [&] {
            std::vector<std::vector<at::Tensor>> outs(1);
            for (int i = 0; i < n; ++i) outs[0].push_back(at::empty_like(t));
            std::vector<at::Tensor> in{t};
            raw->allgather(outs, in)->wait(std::chrono::milliseconds(30000));
          });
          time("new gather", [&] { axis.all_gather(t).wait(); });
          time("old allreduce", [&] {
            std::vector<at::Tensor> in{t};
            raw->allreduce(in)->wait(std::chrono::milliseconds(30000));
          });
          time("new allreduce", [&] { axis.all_reduce_sum(t).wait(); });
          time("old barrier", [&] {
            std::vector<at::Tensor> in{at::ones({1})};
            raw->allreduce(in)->wait(std::chrono::milliseconds(30000));
          });
          time("new barrier", [&] { axis.barrier().wait(); });
        }
      });
}
}  // namespace
}  // namespace braid::comm
