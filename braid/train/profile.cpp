#include "braid/train/profile.h"

#include <algorithm>
#include <array>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/checkpoint/file.h"
#include "braid/config/schedule_times.h"
#include "braid/report/chrome_trace.h"
#include "braid/report/pipeline_drawing.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;
using schedule::Seconds;

struct Mean {
  Seconds sum{0};
  int64_t count = 0;

  void add(Seconds value) {
    sum += value;
    ++count;
  }
  std::optional<Seconds> value() const {
    return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
  }
};

/// What one stage took, by Op: F, B, I, W; and F and I with a W in hand.
struct StageMeans {
  std::array<Mean, 4> alone;
  Mean forward_with_weight;
  Mean backward_input_with_weight;
};

schedule::StageTimes times_of(const StageMeans& means) {
  const auto mean = [&](Op op) { return means.alone[static_cast<size_t>(op)].value(); };
  const std::optional<Seconds> fused = mean(Op::kBackward);
  // Where only the fused backward ever ran, its halves are anybody's guess; their sum is right.
  const Seconds half = fused.value_or(Seconds(0)) / 2;
  schedule::StageTimes times = {.forward = mean(Op::kForward).value_or(Seconds(0)),
                                .backward_input = mean(Op::kBackwardInput).value_or(half),
                                .backward_weight = mean(Op::kBackwardWeight).value_or(half),
                                .fused_backward = fused};
  // What a W in hand saves is the exchange that it ran behind, or less if W is shorter.
  const auto exchange = [&](const Mean& together, Seconds alone) {
    const std::optional<Seconds> both = together.value();
    return both ? std::clamp(alone + times.backward_weight - *both, Seconds(0), alone) : Seconds(0);
  };
  times.forward_exchange = exchange(means.forward_with_weight, times.forward);
  times.backward_exchange = exchange(means.backward_input_with_weight, times.backward_input);
  return times;
}

void add_stage_times(const report::Timeline& timeline, std::vector<StageMeans>& means) {
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    for (const report::ActionRecord& record : timeline.ranks[rank]) {
      if (!is_compute(record.action.op)) continue;
      const int32_t stage = schedule::stage_of(
          timeline.schedule, {.rank = static_cast<int32_t>(rank), .chunk = record.action.chunk});
      StageMeans& mine = means[static_cast<size_t>(stage)];
      Mean& mean = !record.action.weight.exists()     ? mine.alone[static_cast<size_t>(record.action.op)]
                   : record.action.op == Op::kForward ? mine.forward_with_weight
                                                      : mine.backward_input_with_weight;
      mean.add(record.end - record.ready);
    }
  }
}

/// The least time from the start of a send to the moment a waiting receiver had its message.
std::optional<Seconds> fastest_message(const report::Timeline& timeline) {
  const schedule::Schedule& schedule = timeline.schedule;
  std::vector<std::optional<Seconds>> sent(static_cast<size_t>(handover_count(schedule.shape)));
  const auto for_each = [&](auto visit) {
    for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
      for (const report::ActionRecord& record : timeline.ranks[rank])
        visit(static_cast<int32_t>(rank), record);
    }
  };
  for_each([&](int32_t rank, const report::ActionRecord& record) {
    if (!is_send(record.action.op)) return;
    sent[static_cast<size_t>(message_of(schedule, rank, record.action)->tag)] = record.begin;
  });
  std::optional<Seconds> fastest;
  for_each([&](int32_t rank, const report::ActionRecord& record) {
    const auto input = input_of(schedule, rank, record.action);
    if (!input || input->is_local()) return;
    const std::optional<Seconds> start = sent[static_cast<size_t>(input->tag)];
    const bool has_waited = start && record.begin <= *start;
    if (has_waited) fastest = std::min(fastest.value_or(record.ready - *start), record.ready - *start);
  });
  return fastest;
}

}  // namespace

void ActionRecorder::after(const Action& action, const pipeline::ActionTimes& times) {
  if (is_step_end(action.op)) return;
  const auto seconds = [](pipeline::ActionTimes::TimePoint time) { return Seconds(time.time_since_epoch()); };
  records_.push_back({.action = action,
                      .begin = seconds(times.begin),
                      .ready = seconds(times.ready),
                      .end = seconds(times.end)});
}

report::Timeline gather_timeline(const ActionRecorder& recorder, const schedule::Schedule& schedule,
                                 comm::Communicator& pipeline) {
  report::Timeline timeline = {.schedule = schedule, .ranks = {}};
  for (std::vector<Action>& list : timeline.schedule.ranks) {
    std::erase_if(list, [](const Action& action) { return is_step_end(action.op); });
  }
  for (const std::string& text : pipeline.all_gather_bytes(report::to_text(recorder.records()))) {
    timeline.ranks.push_back(report::records_from_text(text));
  }
  return timeline;
}

schedule::Durations measured_durations(const std::vector<report::Timeline>& timelines) {
  schedule::Durations durations = {.stages = {}};
  std::vector<StageMeans> means(static_cast<size_t>(timelines.at(0).schedule.shape.stages()));
  std::optional<Seconds> message;
  for (const report::Timeline& timeline : timelines) {
    require<InternalError>(std::ssize(means) == timeline.schedule.shape.stages(), "timelines of ",
                           means.size(), " and ", timeline.schedule.shape.stages(),
                           " stages do not go together");
    add_stage_times(timeline, means);
    const std::optional<Seconds> fastest = fastest_message(timeline);
    if (fastest) message = std::min(message.value_or(*fastest), *fastest);
  }
  for (const StageMeans& stage : means) durations.stages.push_back(times_of(stage));
  durations.communication = message.value_or(Seconds(0));
  return durations;
}

std::string write_profile(const report::Timeline& timeline, const std::filesystem::path& folder,
                          int64_t step) {
  std::filesystem::create_directories(folder);
  const schedule::Durations durations = measured_durations({timeline});
  const schedule::Simulation planned = schedule::simulate(timeline.schedule, durations);
  const std::filesystem::path trace = folder / cat("step-", step, ".trace.json");
  checkpoint::write_text_file(trace, report::chrome_trace(timeline));
  checkpoint::write_text_file(folder / cat("step-", step, ".svg"),
                              report::draw_planned_over_measured(timeline, planned));
  checkpoint::write_text_file(folder / cat("step-", step, ".times.json"), config::to_json(durations));
  const schedule::Simulation measured = report::measured_simulation(timeline);
  return cat("measured step time ", fixed(measured.step_time.count(), 4), " s, planned ",
             fixed(planned.step_time.count(), 4), " s; bubble ", fixed(100 * measured.bubble_rate, 1),
             "%, planned ", fixed(100 * planned.bubble_rate, 1), "%; trace in ", trace.string());
}

}  // namespace braid::train
