// The messages of one training step, held against the plan: kind, count and bytes of every edge and axis.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>

#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_case_test_support.h"
#include "braid/train/trainer.h"

namespace braid::train {
namespace {

constexpr int64_t kSequences = 2, kTokens = 12;

void run_rank(const Trainer::Options& options) {
  Trainer trainer(options);
  const RunPlan& plan = trainer.plan();
  const at::Tensor tokens = at::ones({kSequences, kTokens}, at::kLong);
  const std::vector<pipeline::Microbatch> microbatches(static_cast<size_t>(plan.training.microbatches),
                                                       {.tokens = tokens, .labels = tokens});
  const comm::CollectiveTraffic before = trainer.world().traffic();
  trainer.step(microbatches);
  const RankPlan& mine = plan.rank_at(trainer.coordinates());
  EXPECT_EQ(trainer.link() ? trainer.link()->traffic() : comm::MessageTraffic{}, mine.messages);
  const int64_t gathered = (std::ssize(plan.ranks) - 1) * kStepExchangeNumel * 8;
  EXPECT_EQ(trainer.world().traffic() - before,
            (comm::CollectiveTraffic{{{comm::Collective::kAllGather, {1, gathered}}}}))
      << "one all-gather is the step's only collective";
  trainer.world().barrier().wait();
}

class StepMessages : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(StepMessages, AreThoseOfThePlanForEverySchedule) {
  tensor::install_cpu_allocator();
  const auto [pp, tied] = GetParam();
  int schedules = 0;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int32_t chunks : {1, 2}) {
      if (mode.chunks && *mode.chunks != chunks) continue;
      Trainer::Options options = {
          .strategy = {.mesh = {.pp = pp},
                       .chunks_per_rank = chunks,
                       .schedule_mode = std::string(mode.name),
                       .durations = schedule::parse_durations("1,1.2,0.8,0.1", chunks)},
          .training = {.microbatch_sequences = kSequences,
                       .sequence_tokens = kTokens,
                       .microbatches = 2 * pp,
                       .precision =
                           schedules % 2 == 1 ? config::Precision::kBfloat16 : config::Precision::kFloat32,
                       .max_grad_norm = schedules % 3 == 0 ? 0.0 : 1.0},
          .model = model::llama_spec(tiny_model(tied)),
          .initialise = [](std::span<tensor::Parameter* const> all) { model::initialise(all, {.seed = 1}); }};
      SCOPED_TRACE(::testing::Message() << mode.name << ", " << chunks << " chunks");
      ++schedules;
      comm::run_ranks(pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Trainer::Options mine = options;
        mine.place = {.world = world, .store = store, .timeout = std::chrono::seconds(60)};
        run_rank(mine);
      });
    }
  }
  EXPECT_GE(schedules, 13);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, StepMessages,
                         ::testing::Combine(::testing::Range(1, 5), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
