#include "braid/report/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "braid/base/error.h"

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

int32_t thread_of(Op op) { return is_compute(op) || is_step_end(op) ? kComputeThread : kCommunicationThread; }

class Trace {
 public:
  explicit Trace(const Timeline& timeline) : timeline_(timeline) {
    for (const std::vector<ActionRecord>& records : timeline.ranks) {
      for (const ActionRecord& record : records) {
        origin_ = std::min(origin_.value_or(record.begin), record.begin);
      }
    }
  }

  std::string text() {
    for (int32_t rank = 0; rank < timeline_.schedule.shape.ranks; ++rank) {
      add_names(rank);
      for (const ActionRecord& record : records_of(rank)) add_record(rank, record);
    }
    add_flows();
    return cat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"schedule\":",
               json_string(timeline_.schedule.name), "},\"traceEvents\":[\n", events_, "\n]}\n");
  }

 private:
  struct Point {
    int32_t rank = 0;
    int32_t thread = kComputeThread;
    Seconds time{0};
  };

  const std::vector<ActionRecord>& records_of(int32_t rank) const {
    return timeline_.ranks[static_cast<size_t>(rank)];
  }

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

  void add_names(int32_t rank) {
    const auto name = [&](std::string_view what, int32_t thread, std::string_view argument) {
      add(cat("{\"ph\":\"M\",\"name\":\"", what, "\",\"pid\":", rank, ",\"tid\":", thread, ",\"args\":{",
              argument, "}}"));
    };
    name("process_name", 0, cat("\"name\":\"rank ", rank, "\""));
    name("process_sort_index", 0, cat("\"sort_index\":", rank));
    name("thread_name", kComputeThread, "\"name\":\"compute\"");
    name("thread_sort_index", kComputeThread, "\"sort_index\":1");
    name("thread_name", kCommunicationThread, "\"name\":\"communication\"");
    name("thread_sort_index", kCommunicationThread, "\"sort_index\":2");
  }

  std::string arguments(int32_t rank, const Action& action) const {
    const schedule::Indices indices = indices_of(action.op);
    if (indices == schedule::Indices::kNone) return {};
    const int32_t stage = stage_of(timeline_.schedule, {.rank = rank, .chunk = action.chunk});
    const std::string of_stage = cat("\"chunk\":", action.chunk, ",\"stage\":", stage);
    return indices == schedule::Indices::kChunk ? of_stage
                                                : cat("\"microbatch\":", action.microbatch, ",", of_stage);
  }

  void add_slice(int32_t rank, const Action& action, std::string_view name, std::string_view category,
                 Seconds begin, Seconds end) {
    const int64_t start = nanoseconds(begin);
    add(cat("{\"ph\":\"X\",\"name\":\"", name, "\",\"cat\":\"", category, "\",\"pid\":", rank,
            ",\"tid\":", thread_of(action.op), ",\"ts\":", microseconds(start), ",\"dur\":",
            microseconds(nanoseconds(end) - start), ",\"args\":{", arguments(rank, action), "}}"));
  }

  void add_record(int32_t rank, const ActionRecord& record) {
    const auto& [action, begin, ready, end] = record;
    const std::string name = to_string(action);
    if (thread_of(action.op) == kCommunicationThread) {
      add_slice(rank, action, name, category_of(action.op), begin, end);
      return;
    }
    if (nanoseconds(ready) > nanoseconds(begin)) {
      add_slice(rank, action, "wait for " + name, "wait", begin, ready);
    }
    add_slice(rank, action, name, category_of(action.op), ready, end);
  }

  // Where each message between ranks was sent, by its tag.
  std::unordered_map<int64_t, Point> departures() const {
    const Schedule& schedule = timeline_.schedule;
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
    for (int32_t rank = 0; rank < timeline_.schedule.shape.ranks; ++rank) {
      for (const ActionRecord& record : records_of(rank)) {
        if (!is_compute(record.action.op)) continue;
        const std::optional<Handover> input = input_of(timeline_.schedule, rank, record.action);
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
    add(cat("{\"ph\":\"", phase, "\",\"bp\":\"e\",\"id\":", id, ",\"name\":\"", name,
            "\",\"cat\":\"message\",\"pid\":", point.rank, ",\"tid\":", point.thread,
            ",\"ts\":", microseconds(nanoseconds(point.time)), "}"));
  }

  const Timeline& timeline_;
  std::optional<Seconds> origin_;
  std::string events_;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  validate(timeline);
  return Trace(timeline).text();
}

}  // namespace braid::report
