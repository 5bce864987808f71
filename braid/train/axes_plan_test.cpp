// Memory and messages of all axes, as planned.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/comm/testing.h"
#include "braid/schedule/memory.h"
#include "braid/tensor/memory.h"
#include "braid/train/axes_test_support.h"
#include "braid/train/memory_test_support.h"
#include "braid/train/segment_plan.h"

namespace braid::train::axes {
namespace {

using config::ReduceTiming;
using schedule::Action;
using schedule::Op;

/// Holds what a rank has after every action but those that end a step against the plan. From the start of a
/// message to its wait, what it needs may be gone at any time: between them the plan is an upper bound.
class MemoryWitness final : public pipeline::Observer {
 public:
  MemoryWitness(const Trainer& trainer, int64_t before)
      : trainer_(trainer), plan_(trainer.plan()), before_(before) {
    const int64_t element_bytes = plan_.training.precision == config::Precision::kBfloat16 ? 2 : 4;
    microbatch_ = plan_.microbatch(trainer.coordinates().mp);
    message_bytes_ = microbatch_.own_tokens() * plan_.model.hidden * element_bytes;
    const RankPlan& mine = plan_.rank_at(trainer.coordinates());
    std::set<int> neighbours;
    for (const auto& [route, tally] : mine.messages.tallies) neighbours.insert(route.peer);
    const int64_t most_travelling = schedule::peak_handovers(plan_.step)[static_cast<size_t>(trainer.rank())];
    constant_ = mine.memory.weights + mine.memory.gradients + mine.memory.optimizer_states +
                mine.memory.buffers - most_travelling * message_bytes_ +
                tensor::kAllocationUnitBytes * std::ssize(neighbours);
    const RankLayout layout = lay_out_rank(plan_.layers_of_rank(trainer.rank()), plan_.layout(),
                                           element_bytes, layers::placement_of(microbatch_));
    segments_ = segment_bytes(plan_, trainer.rank(), layout, microbatch_);
  }

  void after(const Action& action, const pipeline::ActionTimes& /*times*/) override {
    const std::vector<Action>& list = plan_.step.ranks[static_cast<size_t>(trainer_.rank())];
    const size_t position = position_++;
    ASSERT_EQ(action, list[position]);
    if (class_of(action.op) == schedule::OpClass::kStepEnd) return;
    kept_ += schedule::memory_change(plan_.step, plan_.memory_bytes, trainer_.rank(), action);
    travelling_ += schedule::handover_change(plan_.step, trainer_.rank(), action);
    const auto is_embedding = [&](const Action& one) {
      return one.chunk == 0 && plan_.first_rank() == trainer_.rank() && one.segment <= 0;
    };
    if (is_embedding(action) && action.op == Op::kForward) kept_ -= microbatch_.tokens() * 8;
    const std::optional<Action> weight = weight_action(action);
    if (weight && is_embedding(*weight)) kept_ += microbatch_.tokens() * 8;
    count_in_flight(action.op);
    const int64_t expected = constant_ + kept_ + travelling_ * message_bytes_ + segments_[position];
    const std::string where =
        cat("after ", to_string(action), " at ", position, " of rank ", trainer_.rank());
    if (in_flight_ > 0) {
      ASSERT_LE(settled_bytes(before_, expected), expected) << where;
    } else {
      ++exact_;
      ASSERT_EQ(settled_bytes(before_, expected), expected) << where;
    }
  }

  int exact() const { return exact_; }

 private:
  void count_in_flight(Op op) {
    if (op == Op::kGather || op == Op::kReduce || op == Op::kReduceDp) ++in_flight_;
    if (op == Op::kWaitGather || op == Op::kWaitReduce || op == Op::kWaitReduceDp) --in_flight_;
  }

  const Trainer& trainer_;
  const RunPlan& plan_;
  int64_t before_;
  cost::MicrobatchShape microbatch_;
  int64_t message_bytes_ = 0;
  int64_t constant_ = 0;
  std::vector<int64_t> segments_;
  size_t position_ = 0;
  int64_t kept_ = 0;
  int64_t travelling_ = 0;
  int in_flight_ = 0;
  int exact_ = 0;
};

std::vector<config::Strategy> many_strategies() {
  std::vector<config::Strategy> all;
  for (const mesh::MeshShape& mesh : {mesh::MeshShape{.sharding = 2},
                                      {.sharding = 2, .pp = 2},
                                      {.pp = 2, .dp = 2},
                                      {.sharding = 2, .pp = 2, .dp = 2},
                                      {.mp = 2, .pp = 2},
                                      {.mp = 2, .sharding = 2, .pp = 2}}) {
    for (const int32_t stage : {0, 1, 2, 3}) {
      if (mesh.sharding == 1 && stage > (mesh.mp > 1 ? 1 : 0)) continue;
      for (const ReduceTiming timing : {ReduceTiming::kStep, ReduceTiming::kMicrobatch}) {
        config::Strategy strategy = strategy_of(mesh, stage, timing);
        strategy.schedule_mode = std::array{"1F1B", "ZBH1", "ZBVPP"}[all.size() % 3];
        if (strategy.schedule_mode == "ZBVPP") strategy.chunks_per_rank = mesh.pp == 1 ? 1 : 2;
        if (mesh.pp == 1) strategy.schedule_mode = "1F1B";
        strategy.sequence_parallel = mesh.mp > 1 && all.size() % 2 == 1;
        strategy.offloads_optimizer = all.size() % 4 >= 2;
        strategy.recompute = static_cast<config::Recomputation>((all.size() + all.size() / 4) % 4);
        strategy.early_weight_gradients = all.size() % 3 != 0 && timing == ReduceTiming::kStep;
        if (mesh.mp > 1) {  // W's go behind exchanges
          schedule::StageTimes times;
          times.forward_exchange = times.backward_exchange = schedule::Seconds(0.1);
          strategy.durations = schedule::Durations{.stages = {times}};
        }
        all.push_back(strategy);
      }
    }
  }
  return all;
}

TEST(DataAxesPlan, BytesAndMessagesAreThoseOfThePlan) {
  tensor::install_cpu_allocator();
  const ScratchDirectory scratch;
  int number = 0;
  std::atomic<int64_t> in_hand = 0;  // W's behind exchanges of layers that are recomputed
  for (config::Strategy& strategy : many_strategies()) {
    if (strategy.offloads_optimizer) strategy.offload_dir = scratch.path().string();
    const Case c = {.strategy = strategy, .bf16 = ++number % 2 == 0, .tied = number % 3 == 0};
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto ranks = static_cast<int>(strategy.mesh.world_size());
    comm::run_ranks(ranks, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      at::set_num_threads(1);
      const tensor::ArenaScope memory_of_this_rank;
      const Trainer::Options options = options_of(c, world, store);
      std::vector<std::vector<pipeline::Microbatch>> steps;
      const int64_t data_ranks = int64_t{strategy.mesh.sharding} * strategy.mesh.dp;
      const mesh::Coordinates place = mesh::coordinates_of(strategy.mesh, world.rank);
      for (int64_t step = 1; step <= 2; ++step) {
        std::vector<pipeline::Microbatch>& mine = steps.emplace_back();
        for (int64_t i = 0; i < c.microbatches; ++i) {
          mine.push_back(microbatch(
              step, i * data_ranks + int64_t{strategy.mesh.sharding} * place.dp + place.sharding, false));
        }
      }
      const int64_t before = tensor::memory_stats().allocated_bytes;
      Trainer trainer(options);
      const RankPlan& planned = trainer.plan().rank_at(trainer.coordinates());
      if (strategy.recompute == config::Recomputation::kFull)
        in_hand += schedule::count_weights_in_hand(trainer.plan().step);
      for (const std::vector<pipeline::Microbatch>& mine : steps) {
        MemoryWitness witness(trainer, before);
        const comm::CollectiveTraffic world_before = trainer.world().traffic();
        std::map<mesh::Axis, comm::CollectiveTraffic> axes_before;
        for (const mesh::Axis axis : mesh::kAxes) axes_before[axis] = trainer.traffic(axis);
        trainer.observe(&witness);
        trainer.step(mine);
        trainer.observe(nullptr);
        EXPECT_GT(witness.exact(), 2 * c.microbatches);
        for (const mesh::Axis axis : mesh::kAxes) {
          const auto found = planned.collectives.find(axis);
          EXPECT_EQ(trainer.traffic(axis) - axes_before[axis],
                    found == planned.collectives.end() ? comm::CollectiveTraffic{} : found->second)
              << mesh::to_string(axis);
        }
        EXPECT_EQ(trainer.world().traffic() - world_before,
                  (comm::CollectiveTraffic{
                      {{comm::Collective::kAllGather, {1, (ranks - 1) * kStepExchangeNumel * 8}}}}))
            << "one all-gather is all that the ranks of all axes do together";
      }
      trainer.world().barrier().wait();
    });
  }
  EXPECT_GT(in_hand, 0);
}

}  // namespace
}  // namespace braid::train::axes
