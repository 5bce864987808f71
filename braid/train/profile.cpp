#include "braid/train/profile.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/checkpoint/file.h"
#include "braid/config/schedule_times.h"
#include "braid/report/chrome_trace.h"
#include "braid/report/flights.h"
#include "braid/report/pipeline_drawing.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;
using schedule::Seconds;

struct Mean {
  Seconds sum{0};
  int64_t count = 0;

  /// An action on one of a chunk's segments is a part of one microbatch's: the first counts for all.
  void add(const report::ActionRecord& record) {
    sum += record.end - record.ready;
    count += record.action.segment <= 0 ? 1 : 0;
  }
  std::optional<Seconds> value() const {
    return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
  }
};

/// What one stage took, by Op: F, B, I, W; F and I with a W in hand; and the update.
struct StageMeans {
  std::array<Mean, 4> alone;
  Mean forward_with_weight;
  Mean backward_input_with_weight;
  Mean update;
  std::vector<Seconds> by_segment;  ///< of actions on one segment
};

schedule::StageTimes times_of(const StageMeans& means) {
  const auto mean = [&](Op op) { return means.alone[static_cast<size_t>(op)].value(); };
  const std::optional<Seconds> fused = mean(Op::kBackward);
  // Where only the fused backward ever ran, its halves are anybody's guess; their sum is right.
  const Seconds half = fused.value_or(Seconds(0)) / 2;
  schedule::StageTimes times = {.forward = mean(Op::kForward).value_or(Seconds(0)),
                                .backward_input = mean(Op::kBackwardInput).value_or(half),
                                .backward_weight = mean(Op::kBackwardWeight).value_or(half),
                                .fused_backward = fused,
                                .update = means.update.value().value_or(Seconds(0))};
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
      const Action& action = record.action;
      if (!is_compute(action.op) && action.op != Op::kUpdate) continue;
      const int32_t stage =
          schedule::stage_of(timeline.schedule, {.rank = static_cast<int32_t>(rank), .chunk = action.chunk});
      StageMeans& mine = means[static_cast<size_t>(stage)];
      Mean& mean = action.op == Op::kUpdate    ? mine.update
                   : !action.weight.exists()   ? mine.alone[static_cast<size_t>(action.op)]
                   : action.op == Op::kForward ? mine.forward_with_weight
                                               : mine.backward_input_with_weight;
      mean.add(record);
      if (action.segment == schedule::kAllSegments) continue;
      mine.by_segment.resize(static_cast<size_t>(segments_of(timeline.schedule, stage)));
      mine.by_segment[static_cast<size_t>(action.segment)] += record.end - record.ready;
    }
  }
}

/// The exchanges of segments of a rank of the pipeline that the timeline is of.
std::vector<report::Flight> flights_of_rank(const report::Timeline& timeline, int32_t rank) {
  std::vector<schedule::Interval> intervals;
  for (const report::ActionRecord& record : timeline.ranks[static_cast<size_t>(rank)]) {
    intervals.push_back({.start = record.begin, .end = record.end});
  }
  return report::flights_of(timeline.schedule, rank, intervals, nullptr);
}

/// When the last rank of a group started something.
Seconds started_by_all(const StepProfile& profile, mesh::Coordinates place, mesh::Axis axis,
                       size_t position) {
  std::optional<Seconds> last;
  for (int32_t i = 0; i < degree(profile.mesh, axis); ++i) {
    (axis == mesh::Axis::kDp ? place.dp : place.sharding) = i;
    const auto& records = profile.at(place).ranks[static_cast<size_t>(place.pp)];
    last = std::max(last.value_or(records[position].begin), records[position].begin);
  }
  return *last;
}

/// The least that each exchange of segments took, of one rank's and those before.
void add_exchanges(const StepProfile& profile, const mesh::Coordinates& place,
                   std::vector<std::vector<std::array<std::optional<Seconds>, 3>>>& fastest) {
  const report::Timeline& timeline = profile.at(place);
  std::array<std::optional<Seconds>, report::kLanes.size()> ended;  // the one before, by lane
  for (const report::Flight& flight : flights_of_rank(timeline, place.pp)) {
    if (!is_segment(flight.action.op)) continue;
    const report::Lane lane = *report::lane_of(flight.action.op);
    const mesh::Axis axis = lane == report::Lane::kDp ? mesh::Axis::kDp : mesh::Axis::kSharding;
    const Seconds started = started_by_all(profile, place, axis, flight.start_position);
    std::optional<Seconds>& before = ended[static_cast<size_t>(lane)];
    const Seconds end = flight.interval.end;
    const Seconds took = std::max(Seconds(0), end - std::max(started, before.value_or(started)));
    before = end;
    const size_t kind = flight.action.op == Op::kGather ? 0 : flight.action.op == Op::kReduce ? 1 : 2;
    const int32_t stage =
        schedule::stage_of(timeline.schedule, {.rank = place.pp, .chunk = flight.action.chunk});
    std::optional<Seconds>& least =
        fastest[static_cast<size_t>(stage)][static_cast<size_t>(flight.action.segment)][kind];
    least = std::min(least.value_or(took), took);
  }
}

std::vector<std::vector<schedule::SegmentTimes>> segment_times(const StepProfile& profile,
                                                               const std::vector<StageMeans>& means) {
  const schedule::Schedule& schedule = profile.pipelines.front().schedule;
  if (!schedule.data.is_on()) return {};
  std::vector<std::vector<std::array<std::optional<Seconds>, 3>>> fastest;
  for (const int32_t segments : schedule.data.segments) fastest.emplace_back(static_cast<size_t>(segments));
  for (int32_t rank = 0; rank < static_cast<int32_t>(profile.mesh.world_size()); ++rank) {
    add_exchanges(profile, coordinates_of(profile.mesh, rank), fastest);
  }
  std::vector<std::vector<schedule::SegmentTimes>> times;
  for (size_t stage = 0; stage < fastest.size(); ++stage) {
    const std::vector<Seconds>& parts = means[stage].by_segment;
    const Seconds whole = std::accumulate(parts.begin(), parts.end(), Seconds(0));
    std::vector<schedule::SegmentTimes>& of_stage = times.emplace_back();
    for (size_t i = 0; i < fastest[stage].size(); ++i) {
      const auto& [gather, reduce, reduce_dp] = fastest[stage][i];
      of_stage.push_back(
          {.share = whole > Seconds(0) ? parts[i] / whole : 1.0 / static_cast<double>(fastest[stage].size()),
           .gather = gather.value_or(Seconds(0)),
           .reduce = reduce.value_or(Seconds(0)),
           .reduce_dp = reduce_dp.value_or(Seconds(0))});
    }
  }
  return times;
}

/// From when the last rank has its norms to when the first has all; 0 if no rank waits for them.
Seconds norm_exchange(const StepProfile& profile) {
  std::optional<Seconds> last_start;
  std::optional<Seconds> first_end;
  for (const report::Timeline& timeline : profile.pipelines) {
    for (const std::vector<report::ActionRecord>& records : timeline.ranks) {
      for (const report::ActionRecord& record : records) {
        // NORM computes the norms before it starts the exchange.
        if (record.action.op == Op::kNorm) last_start = std::max(last_start.value_or(record.end), record.end);
        if (record.action.op == Op::kWaitNorm)
          first_end = std::min(first_end.value_or(record.end), record.end);
      }
    }
  }
  return first_end && last_start ? std::max(Seconds(0), *first_end - *last_start) : Seconds(0);
}

/// The least time in which the gradients of a tied weight were added, from both ranks' starts.
Seconds tied_exchange(const report::Timeline& timeline) {
  std::optional<Seconds> least;
  const auto start_of = [&](schedule::Place place) {
    std::optional<Seconds> start;
    for (const report::ActionRecord& record : timeline.ranks[static_cast<size_t>(place.rank)]) {
      if (record.action.op == Op::kReduceTied && record.action.chunk == place.chunk) start = record.begin;
    }
    return start;
  };
  for (int32_t rank = 0; rank < timeline.schedule.shape.ranks; ++rank) {
    for (const schedule::TiedReduction& tied : tied_reductions(timeline.schedule, rank)) {
      const auto mine = start_of({.rank = rank, .chunk = tied.chunk});
      const auto theirs = start_of(tied.other);
      if (tied.other.rank == rank || !mine || !theirs) continue;
      for (const report::ActionRecord& record : timeline.ranks[static_cast<size_t>(rank)]) {
        if (record.action.op != Op::kWaitReduceTied || record.action.chunk != tied.chunk) continue;
        const Seconds took = std::max(Seconds(0), record.end - std::max(*mine, *theirs));
        least = std::min(least.value_or(took), took);
      }
    }
  }
  return least.value_or(Seconds(0));
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
  const auto seconds = [](pipeline::ActionTimes::TimePoint time) { return Seconds(time.time_since_epoch()); };
  records_.push_back({.action = action,
                      .begin = seconds(times.begin),
                      .ready = seconds(times.ready),
                      .end = seconds(times.end)});
}

const report::Timeline& StepProfile::at(const mesh::Coordinates& place) const {
  const int64_t index = place.mp + int64_t{mesh.mp} * (place.sharding + int64_t{mesh.sharding} * place.dp);
  return pipelines[static_cast<size_t>(index)];
}

StepProfile gather_profile(const ActionRecorder& recorder, const RunPlan& plan, comm::Communicator& world) {
  StepProfile profile = {.mesh = plan.strategy.mesh, .pipelines = {}};
  const std::vector<std::string> texts = world.all_gather_bytes(report::to_text(recorder.records()));
  for (int32_t rank = 0; rank < static_cast<int32_t>(texts.size()); ++rank) {
    mesh::Coordinates place = coordinates_of(profile.mesh, rank);
    if (place.pp != 0) continue;
    report::Timeline& timeline = profile.pipelines.emplace_back(report::Timeline{.schedule = plan.step});
    for (; place.pp < profile.mesh.pp; ++place.pp) {
      const auto member = static_cast<size_t>(rank_of(profile.mesh, place));
      timeline.ranks.push_back(report::records_from_text(texts[member]));
    }
  }
  return profile;
}

schedule::Durations measured_durations(const StepProfile& profile) {
  schedule::Durations durations = {.stages = {}};
  const report::Timeline& first = profile.pipelines.at(0);
  std::vector<StageMeans> means(static_cast<size_t>(first.schedule.shape.stages()));
  std::optional<Seconds> message;
  for (const report::Timeline& timeline : profile.pipelines) {
    add_stage_times(timeline, means);
    const std::optional<Seconds> fastest = fastest_message(timeline);
    if (fastest) message = std::min(message.value_or(*fastest), *fastest);
  }
  for (const StageMeans& stage : means) durations.stages.push_back(times_of(stage));
  durations.communication = message.value_or(Seconds(0));
  durations.tied_exchange = tied_exchange(first);
  durations.norm_exchange = norm_exchange(profile);
  durations.segments = segment_times(profile, means);
  return durations;
}

namespace {

/// All pipelines, each rank by its number among all and, with other axes, its place.
std::vector<report::TracedPipeline> traced(const StepProfile& profile) {
  std::vector<report::TracedPipeline> pipelines;
  const bool is_one = profile.pipelines.size() == 1;
  for (int32_t rank = 0; rank < static_cast<int32_t>(profile.mesh.world_size()); ++rank) {
    mesh::Coordinates place = coordinates_of(profile.mesh, rank);
    if (place.pp != 0) continue;
    report::TracedPipeline& pipeline =
        pipelines.emplace_back(report::TracedPipeline{.timeline = profile.at(place)});
    for (; place.pp < profile.mesh.pp; ++place.pp) {
      const int32_t member = rank_of(profile.mesh, place);
      const std::string where = is_one ? "" : cat(" (", mesh::to_string(place), ")");
      pipeline.ranks.push_back({.number = member, .name = cat("rank ", member, where)});
    }
  }
  return pipelines;
}

}  // namespace

std::string write_profile(const StepProfile& profile, const std::filesystem::path& folder, int64_t step) {
  checkpoint::make_directory(folder);
  const report::Timeline& timeline = profile.pipelines.at(0);
  const schedule::Durations durations = measured_durations(profile);
  const schedule::Simulation planned = schedule::simulate(timeline.schedule, durations);
  const std::filesystem::path trace = folder / cat("step-", step, ".trace.json");
  checkpoint::write_text_file(trace, report::chrome_trace(traced(profile)));
  checkpoint::write_text_file(folder / cat("step-", step, ".svg"),
                              report::draw_planned_over_measured(timeline, planned, &durations));
  checkpoint::write_text_file(folder / cat("step-", step, ".times.json"), config::to_json(durations));
  const schedule::Simulation measured = report::measured_simulation(timeline);
  return cat("measured step time ", fixed(measured.step_time.count(), 4), " s, planned ",
             fixed(planned.step_time.count(), 4), " s; bubble ", fixed(100 * measured.bubble_rate, 1),
             "%, planned ", fixed(100 * planned.bubble_rate, 1), "%; trace in ", trace.string());
}

}  // namespace braid::train
