#include "braid/train/stress_test_support.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "braid/base/error.h"
#include "braid/comm/testing.h"
#include "braid/schedule/check.h"
#include "braid/schedule/csv.h"
#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;
using schedule::PipelineShape;
using schedule::ReceivePosting;

// How far each microbatch has come on each stage.
class Progress {
 public:
  enum State { kNothing, kForward, kInputGradient, kDone };

  explicit Progress(const PipelineShape& shape)
      : shape_(shape),
        states_(static_cast<size_t>(shape.stages()) * static_cast<size_t>(shape.microbatches), kNothing) {}

  void finish(int32_t stage, const Action& action) {
    state(stage, action.microbatch) = action.op == Op::kForward         ? kForward
                                      : action.op == Op::kBackwardInput ? kInputGradient
                                                                        : kDone;
  }

  // What `stage`, a rank's chunk `chunk`, could do next with microbatch `i`.
  std::vector<Action> ready(int32_t stage, int32_t chunk, int32_t i) const {
    const bool is_next_weight = i == 0 || state(stage, i - 1) == kDone;
    const bool is_next_loss = stage + 1 < shape_.stages() || i == 0 || state(stage, i - 1) >= kForward;
    const bool has_input = stage == 0 || state(stage - 1, i) >= kForward;
    const bool has_gradient = stage + 1 == shape_.stages() || state(stage + 1, i) >= kInputGradient;
    std::vector<Action> actions;
    switch (state(stage, i)) {
      case kNothing:
        if (has_input && is_next_loss) actions.push_back({Op::kForward, chunk, i});
        break;
      case kForward:
        if (has_gradient) actions.push_back({Op::kBackwardInput, chunk, i});
        if (has_gradient && is_next_weight) actions.push_back({Op::kBackward, chunk, i});
        break;
      case kInputGradient:
        if (is_next_weight) actions.push_back({Op::kBackwardWeight, chunk, i});
        break;
      case kDone:
        break;
    }
    return actions;
  }

 private:
  size_t index(int32_t stage, int32_t microbatch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(shape_.microbatches) +
           static_cast<size_t>(microbatch);
  }
  State& state(int32_t stage, int32_t microbatch) { return states_[index(stage, microbatch)]; }
  State state(int32_t stage, int32_t microbatch) const { return states_[index(stage, microbatch)]; }

  PipelineShape shape_;
  std::vector<State> states_;
};

// Any order that data allows: of all compute actions that could run next anywhere, one at a time, on stages
// placed by chance. Weight gradients ascend; backwards are fused or split.
schedule::Schedule random_schedule(std::mt19937& random, const PipelineShape& shape) {
  schedule::Schedule schedule = {.name = "random", .shape = shape};
  schedule.ranks.resize(static_cast<size_t>(shape.ranks));
  std::vector<int32_t> rank_of_stage;
  for (int32_t stage = 0; stage < shape.stages(); ++stage) rank_of_stage.push_back(stage % shape.ranks);
  std::shuffle(rank_of_stage.begin(), rank_of_stage.end(), random);
  schedule::place_stages(schedule, rank_of_stage);
  Progress progress(shape);
  for (;;) {
    std::vector<std::pair<int32_t, Action>> ready;  // stage, action
    for (int32_t stage = 0; stage < shape.stages(); ++stage) {
      for (int32_t i = 0; i < shape.microbatches; ++i) {
        for (const Action& action : progress.ready(stage, schedule::place_of(schedule, stage).chunk, i)) {
          ready.push_back({stage, action});
        }
      }
    }
    if (ready.empty()) return schedule;
    const auto& [stage, action] = ready[random() % ready.size()];
    progress.finish(stage, action);
    schedule.ranks[static_cast<size_t>(schedule::place_of(schedule, stage).rank)].push_back(action);
  }
}

// Nothing if `mode` rejects the shape.
std::optional<schedule::Schedule> if_accepted(const schedule::Mode& mode, const PipelineShape& shape) {
  try {
    return schedule::generate(mode.name, shape);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::vector<EmulatedSchedule> all_modes(int32_t ranks, const std::vector<int32_t>& microbatches) {
  const schedule::Seconds no_time(0);
  const schedule::Durations durations = {
      .stages = {{.forward = no_time, .backward_input = no_time, .backward_weight = no_time}},
      .communication = no_time};
  std::vector<EmulatedSchedule> schedules;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int32_t m : microbatches) {
      for (const int32_t chunks : {1, 2, 3}) {
        const auto compute =
            if_accepted(mode, {.ranks = ranks, .chunks_per_rank = chunks, .microbatches = m});
        if (compute) schedules.push_back({.compute = *compute, .durations = durations});
      }
    }
  }
  return schedules;
}

}  // namespace

schedule::Durations random_durations(std::mt19937& random, int32_t stages) {
  const auto some = [&] { return schedule::Seconds(static_cast<double>(random() % 3) * 1e-4); };
  schedule::Durations durations = {.stages = {}, .communication = {}};
  for (int32_t stage = 0; stage < stages; ++stage) {
    durations.stages.push_back(
        {.forward = some(), .backward_input = some(), .backward_weight = some(), .fused_backward = {}});
  }
  return durations;
}

void expect_runs(const std::vector<EmulatedSchedule>& schedules, ReceivePosting receives,
                 int64_t message_numel) {
  const EmulationOptions options = {
      .steps = 1, .receives = receives, .message_numel = message_numel, .timeout = std::chrono::seconds(30)};
  EXPECT_NO_THROW(comm::run_ranks(
      schedules.front().compute.shape.ranks,
      [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        at::set_num_threads(1);
        const tensor::ArenaScope memory_of_this_rank;
        const std::vector<EmulationResult> results = emulate(schedules, options, world, store);
        EXPECT_EQ(results.size(), schedules.size());
      }));
}

size_t expect_modes_run(const std::vector<int32_t>& ranks, const std::vector<int32_t>& microbatches) {
  size_t runs = 0;
  for (const int32_t p : ranks) {
    const std::vector<EmulatedSchedule> schedules = all_modes(p, microbatches);
    for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
      SCOPED_TRACE(testing::Message()
                   << p << " ranks, early receives: " << (receives == ReceivePosting::kEarly));
      expect_runs(schedules, receives, 1);
      runs += schedules.size();
    }
  }
  return runs;
}

std::map<schedule::Placement, int> expect_random_schedules_run(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::map<schedule::Placement, int> placements;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    const PipelineShape shape = {.ranks = static_cast<int32_t>(1 + random() % 5),
                                 .chunks_per_rank = static_cast<int32_t>(1 + random() % 3),
                                 .microbatches = static_cast<int32_t>(1 + random() % 6)};
    const schedule::Schedule drawn = random_schedule(random, shape);
    const std::string csv = schedule::to_csv(drawn);
    SCOPED_TRACE(csv);
    const schedule::Schedule compute = schedule::from_csv(csv, drawn.name);
    EXPECT_EQ(compute, drawn);
    EXPECT_NO_THROW(schedule::check(compute));
    ++placements[compute.placement];
    expect_runs({{.compute = compute, .durations = random_durations(random, shape.stages())}},
                i % 2 == 0 ? ReceivePosting::kJustInTime : ReceivePosting::kEarly, 1);
  }
  return placements;
}

}  // namespace braid::train
