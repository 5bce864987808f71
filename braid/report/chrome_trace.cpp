#include "braid/report/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/flights.h"

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Handover;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;

constexpr int32_t kComputeThread = 1;
constexpr int32_t kCommunicationThread = 2;

// Bytes that are not UTF-8 are replaced.
std::string json_string(std::string_view text) {
  constexpr int kOneLine = -1;
  constexpr bool kAsciiOnly = true;
  return nlohmann::json(text).dump(kOneLine, ' ', kAsciiOnly, nlohmann::json::error_handler_t::replace);
}

std::string_view category_of(Op op) {
  switch (op) {
    case Op::kForward:
      return "forward";
    case Op::kBackward:
      return "backward";
    case Op::kBackwardInput:
      return "input gradient";
    case Op::kBackwardWeight:
      return "weight gradient";
    case Op::kSendForward:
    case Op::kSendBackward:
      return "send";
    case Op::kRecvForward:
    case Op::kRecvBackward:
      return "receive";
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
      return "wait";
    case Op::kReduceTied:
    case Op::kWaitReduceTied:
    case Op::kNorm:
    case Op::kWaitNorm:
    case Op::kUpdate:
      return "optimizer";
    case Op::kGather:
    case Op::kWaitGather:
    case Op::kRelease:
    case Op::kReduce:
    case Op::kWaitReduce:
    case Op::kReduceDp:
    case Op::kWaitReduceDp:
      return "data ranks";
  }
  return "unknown";
}

int32_t thread_of(Op op) {
  return is_compute(op) || is_step_end(op) || awaited_by(op) ? kComputeThread : kCommunicationThread;
}

class Trace {
 public:
  explicit Trace(std::span<const TracedPipeline> pipelines) : pipelines_(pipelines) {
    for (const TracedPipeline& pipeline : pipelines) {
      for (const std::vector<ActionRecord>& records : pipeline.timeline.ranks) {
        for (const ActionRecord& record : records) {
          origin_ = std::min(origin_.value_or(record.begin), record.begin);
        }
      }
    }
  }

  std::string text() {
    for (const TracedPipeline& pipeline : pipelines_) {
      pipeline_ = &pipeline;
      for (int32_t rank = 0; rank < schedule().shape.ranks; ++rank) {
        add_names(rank);
        for (const ActionRecord& record : records_of(rank)) add_record(rank, record);
        add_flights(rank);
      }
      add_flows();
      first_flow_ += handover_count(schedule().shape);
    }
    return cat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schedule\":",
               json_string(pipelines_.front().timeline.schedule.name), "},\"traceEvents\":[\n", events_,
               "\n]}\n");
  }

 private:
  struct Point {
    int32_t rank = 0;
    int32_t thread = kComputeThread;
    Seconds time{0};
  };

  const Schedule& schedule() const { return pipeline_->timeline.schedule; }
  const std::vector<ActionRecord>& records_of(int32_t rank) const {
    return pipeline_->timeline.ranks[static_cast<size_t>(rank)];
  }
  /// A rank of the pipeline in the trace.
  const TracedRank& traced(int32_t rank) const { return pipeline_->ranks[static_cast<size_t>(rank)]; }

  void add(std::string_view event) {
    events_ += events_.empty() ? "" : ",\n";
    events_ += event;
  }

  // In whole nanoseconds, so that an event that follows another begins exactly at its end.
  int64_t nanoseconds(Seconds time) const { return std::llround((time - *origin_).count() * 1e9); }

  static std::string microseconds(int64_t nanoseconds) {
    const std::string fraction = cat(nanoseconds % 1000);
    return cat(nanoseconds / 1000, ".", std::string(3 - fraction.size(), '0'), fraction);
  }

  void add_name(int32_t rank, std::string_view what, int32_t thread, std::string_view argument) {
    add(cat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", traced(rank).number, ",\"tid\":", thread,
            ",\"args\":{", argument, "}}"));
  }

  void add_lane_name(int32_t rank, int32_t thread, std::string_view name) {
    add_name(rank, "thread_name", thread, cat("\"name\":", json_string(name)));
    add_name(rank, "thread_sort_index", thread, cat("\"sort_index\":", thread));
  }

  void add_names(int32_t rank) {
    add_name(rank, "process_name", 0, cat("\"name\":", json_string(traced(rank).name)));
    add_name(rank, "process_sort_index", 0, cat("\"sort_index\":", traced(rank).number));
    add_lane_name(rank, kComputeThread, "compute");
    add_lane_name(rank, kCommunicationThread, "communication");
  }

  std::string arguments(int32_t rank, const Action& action) const {
    const schedule::Indices indices = indices_of(action.op);
    if (indices == schedule::Indices::kNone) return {};
    const int32_t stage = stage_of(schedule(), {.rank = rank, .chunk = action.chunk});
    std::string text = cat("\"chunk\":", action.chunk, ",\"stage\":", stage);
    if (action.segment != schedule::kAllSegments) text += cat(",\"segment\":", action.segment);
    return indices == schedule::Indices::kMicrobatch ? cat("\"microbatch\":", action.microbatch, ",", text)
                                                     : text;
  }

  void add_slice(int32_t rank, int32_t thread, const Action& action, std::string_view name,
                 std::string_view category, Seconds begin, Seconds end) {
    const int64_t start = nanoseconds(begin);
    add(cat("{\"ph\":\"X\",\"name\":\"", name, "\",\"cat\":\"", category, "\",\"pid\":", traced(rank).number,
            ",\"tid\":", thread, ",\"ts\":", microseconds(start), ",\"dur\":",
            microseconds(nanoseconds(end) - start), ",\"args\":{", arguments(rank, action), "}}"));
  }

  void add_record(int32_t rank, const ActionRecord& record) {
    const auto& [action, begin, ready, end] = record;
    const std::string name = to_string(action);
    if (thread_of(action.op) == kCommunicationThread) {
      add_slice(rank, thread_of(action.op), action, name, category_of(action.op), begin, end);
      return;
    }
    if (nanoseconds(ready) > nanoseconds(begin)) {
      add_slice(rank, thread_of(action.op), action, "wait for " + name, "wait", begin, ready);
    }
    add_slice(rank, thread_of(action.op), action, name, category_of(action.op), ready, end);
  }

  // What is in flight, each lane on threads of its own: as many as it has in flight at once, as slices of a
  // thread must not overlap.
  void add_flights(int32_t rank) {
    std::vector<schedule::Interval> intervals;
    for (const ActionRecord& record : records_of(rank)) intervals.push_back({record.begin, record.end});
    const std::vector<Flight> flights = flights_of(schedule(), rank, intervals, nullptr);
    int32_t thread = kCommunicationThread + 1;
    for (const Lane lane : kLanes) {
      std::vector<Seconds> free;  // when each thread of the lane is
      for (const Flight& flight : flights) {
        const Seconds start = flight.interval.start, end = flight.interval.end;
        if (lane_of(flight.action.op) != lane || end <= start) continue;
        const auto found = std::ranges::find_if(free, [&](Seconds time) { return time <= start; });
        const auto place = static_cast<int32_t>(found - free.begin());
        if (found == free.end()) {
          free.push_back(end);
          add_lane_name(rank, thread + place, cat(to_string(lane), " in flight"));
        } else {
          *found = end;
        }
        add_slice(rank, thread + place, flight.action, to_string(flight.action), "in flight", start, end);
      }
      thread += static_cast<int32_t>(free.size());
    }
  }

  // Where each message between ranks was sent, by its tag.
  std::unordered_map<int64_t, Point> departures() const {
    const Schedule& schedule = this->schedule();
    const bool with_messages = has_messages(schedule);
    std::unordered_map<int64_t, Point> points;
    for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
      for (const auto& [action, begin, ready, end] : records_of(rank)) {
        std::optional<Handover> output;
        if (with_messages && is_send(action.op)) output = message_of(schedule, rank, action);
        if (!with_messages && is_compute(action.op)) output = output_of(schedule, rank, action);
        if (!output || output->is_local()) continue;
        points[output->tag] = {.rank = rank, .thread = thread_of(action.op), .time = ready};
      }
    }
    return points;
  }

  void add_flows() {
    const std::unordered_map<int64_t, Point> points = departures();
    for (int32_t rank = 0; rank < schedule().shape.ranks; ++rank) {
      for (const ActionRecord& record : records_of(rank)) {
        if (!is_compute(record.action.op)) continue;
        const std::optional<Handover> input = input_of(schedule(), rank, record.action);
        if (!input) continue;
        const auto departure = points.find(input->tag);
        if (departure == points.end()) continue;
        const std::string_view name =
            input->payload == schedule::Payload::kActivation ? "activation" : "gradient";
        add_flow_end("s", name, input->tag, departure->second);
        add_flow_end("f", name, input->tag, {.rank = rank, .thread = kComputeThread, .time = record.ready});
      }
    }
  }

  void add_flow_end(std::string_view phase, std::string_view name, int64_t id, const Point& point) {
    add(cat("{\"ph\":\"", phase, "\",\"bp\":\"e\",\"id\":", first_flow_ + id, ",\"name\":\"", name,
            "\",\"cat\":\"message\",\"pid\":", traced(point.rank).number, ",\"tid\":", point.thread,
            ",\"ts\":", microseconds(nanoseconds(point.time)), "}"));
  }

  std::span<const TracedPipeline> pipelines_;
  const TracedPipeline* pipeline_ = nullptr;  // the one that is written
  int64_t first_flow_ = 0;                    // number of its flows
  std::optional<Seconds> origin_;
  std::string events_;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  TracedPipeline pipeline = {.timeline = timeline};
  for (int32_t rank = 0; rank < timeline.schedule.shape.ranks; ++rank) {
    pipeline.ranks.push_back({.number = rank, .name = cat("rank ", rank)});
  }
  return chrome_trace(std::span(&pipeline, 1));
}

std::string chrome_trace(std::span<const TracedPipeline> pipelines) {
  require<DataError>(!pipelines.empty(), "a trace needs at least one pipeline");
  for (const TracedPipeline& pipeline : pipelines) {
    validate(pipeline.timeline);
    require<DataError>(pipeline.ranks.size() == pipeline.timeline.ranks.size(), "a trace of ",
                       counted(std::ssize(pipeline.timeline.ranks), "rank"), " needs as many names, got ",
                       pipeline.ranks.size());
  }
  return Trace(pipelines).text();
}

}  // namespace braid::report
