#include "braid/report/chrome_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/report/timeline_samples.h"

namespace braid::report {
namespace {

using nlohmann::json;
using schedule::Seconds;

int64_t nanoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;
};

using Threads = std::map<std::pair<int, int>, std::vector<Slice>>;

// The complete events of each thread, in order; checks what each must have.
Threads threads_of(const json& trace) {
  Threads threads;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    for (const char* key : {"name", "cat", "pid", "tid", "ts", "dur", "args"}) {
      EXPECT_TRUE(event.contains(key)) << event;
    }
    EXPECT_GE(event["ts"].get<double>(), 0) << event;
    EXPECT_GE(event["dur"].get<double>(), 0) << event;
    const int64_t begin = nanoseconds(event["ts"]);
    threads[{event["pid"], event["tid"]}].push_back(
        {begin, begin + nanoseconds(event["dur"]), event["name"]});
  }
  return threads;
}

void expect_valid(const Timeline& timeline, size_t flows) {
  const json trace = json::parse(chrome_trace(timeline));
  const Threads threads = threads_of(trace);
  size_t slices = 0;
  for (const auto& [thread, list] : threads) {
    for (size_t i = 1; i < list.size(); ++i) {
      EXPECT_GE(list[i].begin, list[i - 1].end) << list[i - 1].name << " and " << list[i].name;
    }
    if (thread.second > 2) continue;  // what is in flight
    for (const Slice& slice : list) slices += slice.name.starts_with("wait for ") ? 0 : 1;
  }
  size_t actions = 0;
  for (const auto& records : timeline.ranks) actions += records.size();
  EXPECT_EQ(slices, actions);

  std::map<int64_t, int> open;
  std::map<std::pair<std::string, int>, int> names;
  size_t ends = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["tid"] <= 2) {
      EXPECT_FALSE(event["args"].empty());
      ++names[{event["name"], event["pid"]}];
    }
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    EXPECT_EQ(event["bp"], "e");
    const auto& list = threads.at({event["pid"], event["tid"]});
    const int64_t time = nanoseconds(event["ts"]);
    EXPECT_TRUE(std::any_of(list.begin(), list.end(),
                            [&](const Slice& slice) { return slice.begin <= time && time <= slice.end; }))
        << "each end of a flow lies on a slice: " << event;
    if (event["ph"] == "s") {
      EXPECT_EQ(open[event["id"]]++, 0) << "one start for each id";
    } else {
      EXPECT_EQ(open[event["id"]]--, 1) << "a finish after its start";
      ++ends;
    }
  }
  EXPECT_EQ(ends, flows);
  for (const auto& [id, count] : open) EXPECT_EQ(count, 0) << "flow " << id << " has no finish";
  for (int rank = 0; rank < timeline.schedule.shape.ranks; ++rank) {
    EXPECT_EQ((names[{"process_name", rank}]), 1);
    EXPECT_EQ((names[{"thread_name", rank}]), 2);
  }
}

TEST(ChromeTrace, KeepsTheRulesOfTheFormat) {
  for (int32_t ranks = 1; ranks <= 4; ++ranks) {
    for (const int32_t microbatches : {1, 3, 8}) {
      const size_t messages = 2 * static_cast<size_t>(ranks - 1) * static_cast<size_t>(microbatches);
      expect_valid(slowing_step(ranks, microbatches), messages);
    }
  }
}

TEST(ChromeTrace, WithoutSendsFlowsLeaveTheActionThatMadeTheMessage) {
  const auto schedule = schedule::generate("1F1B", {.ranks = 3, .microbatches = 4});
  expect_valid(undisturbed(schedule, simulate(schedule, {}), Seconds(0)), 16);
  // Of the three handovers in each direction, the one between chunks of rank 1 is not a message.
  expect_valid(undisturbed(v_schedule(), simulate(v_schedule(), {}), Seconds(0)), 4);
}

TEST(ChromeTrace, GoldenDocument) {
  const auto schedule = lower(schedule::generate("1F1B", {.ranks = 2, .microbatches = 2}), {});
  const schedule::Durations durations = {.communication = Seconds(0.5)};
  EXPECT_EQ(chrome_trace(undisturbed(schedule, simulate(schedule, durations), Seconds(10))),
            R"json({"displayTimeUnit":"ms","otherData":{"schedule":"1F1B"},"traceEvents":[
{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},
{"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"communication"}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":2,"args":{"sort_index":2}},
{"ph":"X","name":"F0","cat":"forward","pid":0,"tid":1,"ts":0.000,"dur":1000000.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"SEND_F0","cat":"send","pid":0,"tid":2,"ts":1000000.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"F1","cat":"forward","pid":0,"tid":1,"ts":1000000.000,"dur":1000000.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"RECV_B0","cat":"receive","pid":0,"tid":2,"ts":2000000.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"SEND_F1","cat":"send","pid":0,"tid":2,"ts":2000000.000,"dur":0.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"wait for B0","cat":"wait","pid":0,"tid":1,"ts":2000000.000,"dur":3000000.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"B0","cat":"backward","pid":0,"tid":1,"ts":5000000.000,"dur":2000000.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"RECV_B1","cat":"receive","pid":0,"tid":2,"ts":7000000.000,"dur":0.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"WAIT_SEND_F0","cat":"wait","pid":0,"tid":2,"ts":7000000.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":0}},
{"ph":"X","name":"wait for B1","cat":"wait","pid":0,"tid":1,"ts":7000000.000,"dur":1000000.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"B1","cat":"backward","pid":0,"tid":1,"ts":8000000.000,"dur":2000000.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"WAIT_SEND_F1","cat":"wait","pid":0,"tid":2,"ts":10000000.000,"dur":0.000,"args":{"microbatch":1,"chunk":0,"stage":0}},
{"ph":"X","name":"NORM","cat":"optimizer","pid":0,"tid":1,"ts":10000000.000,"dur":0.000,"args":{}},
{"ph":"X","name":"WAIT_NORM","cat":"optimizer","pid":0,"tid":1,"ts":10000000.000,"dur":0.000,"args":{}},
{"ph":"X","name":"UPDATE","cat":"optimizer","pid":0,"tid":1,"ts":10000000.000,"dur":0.000,"args":{"chunk":0,"stage":0}},
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"rank 1"}},
{"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"communication"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":2,"args":{"sort_index":2}},
{"ph":"X","name":"RECV_F0","cat":"receive","pid":1,"tid":2,"ts":0.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"wait for F0","cat":"wait","pid":1,"tid":1,"ts":0.000,"dur":1500000.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"F0","cat":"forward","pid":1,"tid":1,"ts":1500000.000,"dur":1000000.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"B0","cat":"backward","pid":1,"tid":1,"ts":2500000.000,"dur":2000000.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"SEND_B0","cat":"send","pid":1,"tid":2,"ts":4500000.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"RECV_F1","cat":"receive","pid":1,"tid":2,"ts":4500000.000,"dur":0.000,"args":{"microbatch":1,"chunk":0,"stage":1}},
{"ph":"X","name":"F1","cat":"forward","pid":1,"tid":1,"ts":4500000.000,"dur":1000000.000,"args":{"microbatch":1,"chunk":0,"stage":1}},
{"ph":"X","name":"B1","cat":"backward","pid":1,"tid":1,"ts":5500000.000,"dur":2000000.000,"args":{"microbatch":1,"chunk":0,"stage":1}},
{"ph":"X","name":"SEND_B1","cat":"send","pid":1,"tid":2,"ts":7500000.000,"dur":0.000,"args":{"microbatch":1,"chunk":0,"stage":1}},
{"ph":"X","name":"WAIT_SEND_B0","cat":"wait","pid":1,"tid":2,"ts":7500000.000,"dur":0.000,"args":{"microbatch":0,"chunk":0,"stage":1}},
{"ph":"X","name":"WAIT_SEND_B1","cat":"wait","pid":1,"tid":2,"ts":7500000.000,"dur":500000.000,"args":{"microbatch":1,"chunk":0,"stage":1}},
{"ph":"X","name":"NORM","cat":"optimizer","pid":1,"tid":1,"ts":8000000.000,"dur":0.000,"args":{}},
{"ph":"X","name":"WAIT_NORM","cat":"optimizer","pid":1,"tid":1,"ts":8000000.000,"dur":2000000.000,"args":{}},
{"ph":"X","name":"UPDATE","cat":"optimizer","pid":1,"tid":1,"ts":10000000.000,"dur":0.000,"args":{"chunk":0,"stage":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"end of step in flight"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":3,"args":{"sort_index":3}},
{"ph":"X","name":"NORM","cat":"in flight","pid":1,"tid":3,"ts":8000000.000,"dur":2000000.000,"args":{}},
{"ph":"s","bp":"e","id":6,"name":"gradient","cat":"message","pid":1,"tid":2,"ts":4500000.000},
{"ph":"f","bp":"e","id":6,"name":"gradient","cat":"message","pid":0,"tid":1,"ts":5000000.000},
{"ph":"s","bp":"e","id":7,"name":"gradient","cat":"message","pid":1,"tid":2,"ts":7500000.000},
{"ph":"f","bp":"e","id":7,"name":"gradient","cat":"message","pid":0,"tid":1,"ts":8000000.000},
{"ph":"s","bp":"e","id":0,"name":"activation","cat":"message","pid":0,"tid":2,"ts":1000000.000},
{"ph":"f","bp":"e","id":0,"name":"activation","cat":"message","pid":1,"tid":1,"ts":1500000.000},
{"ph":"s","bp":"e","id":1,"name":"activation","cat":"message","pid":0,"tid":2,"ts":2000000.000},
{"ph":"f","bp":"e","id":1,"name":"activation","cat":"message","pid":1,"tid":1,"ts":4500000.000}
]}
)json");
}

TEST(ChromeTrace, NamesAreEscapedAndNormsHaveNoMicrobatch) {
  Timeline timeline = {
      .schedule = {.name = "a\"b\\\xff\n", .ranks = {schedule::parse_actions("F0 B0 NORM")}}};
  double now = 3;
  for (const schedule::Action& action : timeline.schedule.ranks[0]) {
    timeline.ranks.resize(1);
    timeline.ranks[0].push_back({action, Seconds(now), Seconds(now), Seconds(now + 1)});
    now += 1;
  }
  const json trace = json::parse(chrome_trace(timeline));
  EXPECT_EQ(trace["otherData"]["schedule"], "a\"b\\\uFFFD\n");
  const json& last = trace["traceEvents"].back();
  EXPECT_EQ(last["name"], "NORM");
  EXPECT_EQ(last["cat"], "optimizer");
  EXPECT_EQ(last["ts"], 2e6);
  EXPECT_TRUE(last["args"].empty());
}

TEST(ChromeTrace, SeveralPipelinesHaveRanksFlowsAndLanesOfTheirOwn) {
  const auto schedule = lower(schedule::generate("1F1B", {.ranks = 2, .microbatches = 3}),
                              {.data = {.has_sharding = true, .sharding_stage = 2, .segments = {2, 2}}});
  const schedule::SegmentTimes times = {.share = 0.5, .gather = Seconds(0.5), .reduce = Seconds(0.7)};
  const schedule::Durations durations = {.stages = {{.update = Seconds(0.25)}},
                                         .segments = {{times, times}, {times, times}}};
  const Timeline timeline = undisturbed(schedule, simulate(schedule, durations), Seconds(5));
  expect_valid(timeline, 6);
  const std::vector<TracedPipeline> pipelines = {
      {.timeline = timeline, .ranks = {{0, "rank 0 (here)"}, {2, "rank 2 (here)"}}},
      {.timeline = timeline, .ranks = {{1, "rank 1 (there)"}, {3, "rank 3 (there)"}}}};
  const json trace = json::parse(chrome_trace(pipelines));
  std::map<int, int> names;
  std::map<std::pair<int, std::string>, int> in_flight;
  std::map<int64_t, int> flows;
  std::set<std::string> lanes;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") ++names[event["pid"]];
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"]);
    if (event["ph"] == "s") ++flows[event["id"]];
    if (event.value("cat", "") != "in flight") continue;
    EXPECT_TRUE(event["name"] == "NORM" || event["args"].contains("segment")) << event;
    const std::string name = event["name"];
    ++in_flight[{event["pid"], name.substr(0, name.find('s'))}];
  }
  EXPECT_EQ(names, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(flows.size(), 2u * 6) << "each pipeline has its own messages";
  EXPECT_EQ((in_flight[{1, "REDUCE"}]), 2) << "of each segment, once a step";
  EXPECT_EQ((in_flight[{3, "GATHER"}]), 2);
  EXPECT_EQ((in_flight[{2, "NORM"}]), 1);
  for (const char* lane : {"compute", "communication", "sharding in flight", "end of step in flight"}) {
    EXPECT_TRUE(lanes.contains(lane)) << lane;
  }
  for (const auto& [thread, list] : threads_of(trace)) {
    for (size_t i = 1; i < list.size(); ++i) EXPECT_GE(list[i].begin, list[i - 1].end) << list[i].name;
  }
  EXPECT_THROW(chrome_trace(std::span<const TracedPipeline>{}), DataError);
  EXPECT_THROW(chrome_trace(std::vector<TracedPipeline>{{.timeline = timeline}}), DataError);
}

TEST(ChromeTrace, RejectsInvalidTimelines) {
  Timeline timeline = slowing_step(2, 2);
  timeline.ranks.pop_back();
  EXPECT_THROW(chrome_trace(timeline), DataError);
}

}  // namespace
}  // namespace braid::report
