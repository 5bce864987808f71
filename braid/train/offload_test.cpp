// Offloaded optimizer states: the same bits, and as much less memory as the states take.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <type_traits>

#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/tensor/memory.h"
#include "braid/train/axes_test_support.h"

namespace braid::train::axes {
namespace {

class Offload : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { tensor::install_cpu_allocator(); }

  Case make(config::Strategy strategy, bool offloads) const {
    strategy.offloads_optimizer = offloads;
    if (offloads) strategy.offload_dir = scratch_.path().string();
    return {.strategy = strategy, .bf16 = GetParam(), .tied = true};
  }

 private:
  ScratchDirectory scratch_;
};

TEST_P(Offload, ChangesNoBit) {
  config::Strategy two_chunks = strategy_of({.sharding = 2, .pp = 2}, 2);
  two_chunks.schedule_mode = "ZBVPP";
  two_chunks.chunks_per_rank = 2;
  for (const config::Strategy& strategy :
       {strategy_of({}, 0), two_chunks, strategy_of({.mp = 2, .sharding = 2}, 3),
        strategy_of({.pp = 2, .dp = 2}, 1)}) {
    SCOPED_TRACE(::testing::PrintToString(make(strategy, true)));
    Case without_clipping = make(strategy, true);
    without_clipping.max_grad_norm = 0;
    expect_same_bits(run(make(strategy, true)), run(make(strategy, false)));
    Case reference = make(strategy, false);
    reference.max_grad_norm = 0;
    expect_same_bits(run(without_clipping), run(reference));
  }
}

TEST_P(Offload, ChangesNoBitWithRecomputation) {
  config::Strategy strategy = strategy_of({.sharding = 2, .pp = 2}, 3);
  strategy.schedule_mode = "ZBH1";
  const Result expected = run(make(strategy, false));
  strategy.recompute = config::Recomputation::kFull;
  expect_same_bits(run(make(strategy, true)), expected);
}

/// The most that an update allocates.
class UpdateWitness final : public pipeline::Observer {
 public:
  void before(const schedule::Action& action) override {
    if (action.op != schedule::Op::kUpdate) return;
    tensor::reset_peak_memory_stats();
    allocated_ = tensor::memory_stats().allocated_bytes;
  }
  void after(const schedule::Action& action, const pipeline::ActionTimes& /*times*/) override {
    if (action.op != schedule::Op::kUpdate) return;
    ++updates_;
    EXPECT_EQ(tensor::memory_stats().max_allocated_bytes, allocated_) << to_string(action);
  }
  int updates() const { return updates_; }

 private:
  int64_t allocated_ = 0;
  int updates_ = 0;
};

/// max_memory_allocated of two steps on each rank, and what the plan says of them.
struct Peaks {
  std::vector<int64_t> bytes;
  std::vector<PlannedMemory> planned;
};

Peaks peaks_of(const Case& c) {
  const auto ranks = static_cast<int>(c.strategy.mesh.world_size());
  Peaks peaks = {.bytes = std::vector<int64_t>(static_cast<size_t>(ranks)),
                 .planned = std::vector<PlannedMemory>(static_cast<size_t>(ranks))};
  comm::run_ranks(ranks, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    at::set_num_threads(1);
    const tensor::ArenaScope memory_of_this_rank;
    Trainer trainer(options_of(c, world, store));
    trainer.step(microbatches_of(trainer, 1, false));
    tensor::reset_peak_memory_stats();
    trainer.step(microbatches_of(trainer, 2, false));
    peaks.bytes[static_cast<size_t>(world.rank)] = tensor::memory_stats().max_allocated_bytes;
    peaks.planned[static_cast<size_t>(world.rank)] = trainer.plan().rank_at(trainer.coordinates()).memory;
    UpdateWitness witness;
    trainer.observe(&witness);
    trainer.step(microbatches_of(trainer, 3, false));
    trainer.observe(nullptr);
    EXPECT_GT(witness.updates(), 0);
    trainer.world().barrier().wait();
  });
  return peaks;
}

TEST_P(Offload, TheMostMemoryFallsByTheStates) {
  for (const config::Strategy& strategy : {strategy_of({}, 0), strategy_of({.pp = 2}, 0)}) {
    SCOPED_TRACE(::testing::PrintToString(make(strategy, true)));
    const Peaks with = peaks_of(make(strategy, true)), without = peaks_of(make(strategy, false));
    for (size_t rank = 0; rank < with.bytes.size(); ++rank) {
      const PlannedMemory& planned = without.planned[rank];
      EXPECT_GT(planned.optimizer_states, 0);
      // Which messages are on their way at the same time varies from run to run.
      const int64_t messages = with.bytes.size() == 1 ? 0 : planned.buffers;
      EXPECT_NEAR(without.bytes[rank] - with.bytes[rank], planned.optimizer_states, messages)
          << "rank " << rank;
      EXPECT_EQ(with.planned[rank].optimizer_states, 0);
      EXPECT_EQ(with.planned[rank].offloaded_states, planned.optimizer_states);
      EXPECT_EQ(with.planned[rank].sum(), planned.sum() - planned.optimizer_states);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Offload, ::testing::Bool());

TEST(OffloadOptions, AFileNeedsADirectoryThatExists) {
  const auto error_of = []<typename Error>(const std::string& directory, std::type_identity<Error>) {
    Case c = {.strategy = strategy_of({}, 0)};
    c.strategy.offloads_optimizer = true;
    c.strategy.offload_dir = directory;
    std::string message;
    comm::run_ranks(1, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      try {
        Trainer trainer(options_of(c, world, store));
      } catch (const Error& error) {
        message = error.what();
      }
    });
    return message;
  };
  EXPECT_THAT(error_of("", std::type_identity<ConfigError>{}),
              ::testing::HasSubstr("set Strategy::offload_dir"));
  EXPECT_THAT(error_of("/nowhere/at/all", std::type_identity<OutputError>{}),
              ::testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace braid::train::axes
