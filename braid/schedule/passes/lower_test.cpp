#include "braid/schedule/passes/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

std::vector<Action> compute_of(const std::vector<Action>& list) {
  std::vector<Action> result;
  std::copy_if(list.begin(), list.end(), std::back_inserter(result),
               [](const Action& action) { return is_compute(action.op); });
  return result;
}

// Any order that data allows, drawn by chance: of all compute actions that could run next anywhere, one at a
// time. Input gradients may come in any order; a fused backward only where it keeps weight gradients
// ascending.
Schedule random_schedule(std::mt19937& random, const PipelineShape& shape, Placement placement) {
  Schedule schedule = {.name = "random", .shape = shape, .placement = placement};
  schedule.ranks.resize(static_cast<size_t>(shape.ranks));
  const auto cells = static_cast<size_t>(shape.stages()) * static_cast<size_t>(shape.microbatches);
  std::vector<int> progress(cells, 0);  // 0 nothing, 1 F, 2 I, 3 W
  const auto done = [&](int32_t stage, int32_t microbatch) -> int& {
    return progress[static_cast<size_t>(stage) * static_cast<size_t>(shape.microbatches) +
                    static_cast<size_t>(microbatch)];
  };
  for (;;) {
    std::vector<std::pair<int32_t, Action>> ready;  // stage, action
    for (int32_t stage = 0; stage < shape.stages(); ++stage) {
      const int32_t chunk = place_of(schedule, stage).chunk;
      for (int32_t i = 0; i < shape.microbatches; ++i) {
        const bool is_next_weight = i == 0 || done(stage, i - 1) == 3;
        const bool is_next_loss = stage + 1 < shape.stages() || i == 0 || done(stage, i - 1) >= 1;
        const bool has_gradient = stage + 1 == shape.stages() || done(stage + 1, i) >= 2;
        if (done(stage, i) == 0 && is_next_loss && (stage == 0 || done(stage - 1, i) >= 1))
          ready.push_back({stage, {Op::kForward, chunk, i}});
        if (done(stage, i) == 1 && has_gradient) ready.push_back({stage, {Op::kBackwardInput, chunk, i}});
        if (done(stage, i) == 1 && has_gradient && is_next_weight)
          ready.push_back({stage, {Op::kBackward, chunk, i}});
        if (done(stage, i) == 2 && is_next_weight) ready.push_back({stage, {Op::kBackwardWeight, chunk, i}});
      }
    }
    if (ready.empty()) return schedule;
    const auto& [stage, action] = ready[random() % ready.size()];
    done(stage, action.microbatch) = action.op == Op::kForward ? 1 : action.op == Op::kBackwardInput ? 2 : 3;
    schedule.ranks[static_cast<size_t>(place_of(schedule, stage).rank)].push_back(action);
  }
}

// check, which lower ends with, proves messages, order and progress. Besides: computing stays as it was, also
// in time.
void expect_sound(const Schedule& compute) {
  for (const ReceivePosting receives : {ReceivePosting::kJustInTime, ReceivePosting::kEarly}) {
    const Schedule lowered = lower(compute, {.receives = receives});
    const CheckReport report = check(lowered);
    ASSERT_EQ(report.peak_live_activations, check(compute).peak_live_activations);
    ASSERT_EQ(report.messages, check(compute).messages);
    for (size_t rank = 0; rank < compute.ranks.size(); ++rank) {
      ASSERT_EQ(compute_of(lowered.ranks[rank]), compute.ranks[rank]);
      ASSERT_EQ(lowered.ranks[rank].back().op, Op::kUpdate);
    }
    // Receives are posted early by one compute action at the most, so a wait for its proof holds nothing up.
    ASSERT_EQ(simulate(lowered, {}).step_time, simulate(compute, {}).step_time);
  }
}

// Nothing if `mode` rejects the shape.
std::optional<Schedule> if_accepted(const Mode& mode, const PipelineShape& shape) {
  try {
    return generate(mode.name, shape);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

TEST(Lower, EverySmallPipelineOfEveryModeIsSound) {
  for (const Mode& mode : modes()) {
    for (int32_t ranks = 1; ranks <= 8; ++ranks) {
      int32_t accepted = 0;
      for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
        SCOPED_TRACE(testing::Message() << mode.name << " p " << ranks << " m " << microbatches);
        const std::optional<Schedule> schedule = if_accepted(
            mode, {.ranks = ranks, .chunks_per_rank = mode.chunks.value_or(2), .microbatches = microbatches});
        if (!schedule) continue;
        ++accepted;
        ASSERT_NO_FATAL_FAILURE(expect_sound(*schedule));
      }
      ASSERT_GT(accepted, 0) << mode.name << " p " << ranks;
    }
  }
}

TEST(Lower, AnyOrderThatDataAllowsIsSound) {
  std::mt19937 random(20240101);
  for (int i = 0; i < 400; ++i) {
    const PipelineShape shape = {.ranks = static_cast<int32_t>(1 + random() % 5),
                                 .chunks_per_rank = static_cast<int32_t>(1 + random() % 3),
                                 .microbatches = static_cast<int32_t>(1 + random() % 6)};
    const Schedule schedule =
        random_schedule(random, shape, random() % 2 ? Placement::kV : Placement::kLooped);
    SCOPED_TRACE(to_string(schedule));
    ASSERT_NO_FATAL_FAILURE(expect_sound(schedule));
    const TiedStages ends = {.last = shape.stages() - 1, .last_made_in_forward = random() % 2 == 0};
    for (const NormUse norm_use : {NormUse::kScalesUpdate, NormUse::kReportedOnly}) {
      ASSERT_NO_THROW(lower(schedule, {.step_end = {.tied = {ends}, .norm_use = norm_use}}));
    }
  }
}

// A rank keeps a send's buffer for about as long as it keeps the activations of the same microbatch.
TEST(Lower, FewSendBuffersAreKeptInOneFOneB) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    for (int32_t microbatches = 1; microbatches <= 24; ++microbatches) {
      const Schedule lowered = lower(generate("1F1B", {.ranks = ranks, .microbatches = microbatches}), {});
      const CheckReport report = check(lowered);
      for (size_t rank = 0; rank < report.peak_outstanding_sends.size(); ++rank) {
        ASSERT_LE(report.peak_outstanding_sends[rank], report.peak_live_activations[rank] + 3)
            << "p " << ranks << " m " << microbatches << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace braid::schedule
