#include "braid/report/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/check.h"

namespace braid::report {
namespace {

using schedule::Action;
using schedule::Interval;
using schedule::Op;
using schedule::Schedule;
using schedule::Seconds;
using schedule::Simulation;

bool is_communication(Op op) { return is_send(op) || is_receive(op) || is_wait_send(op); }

void validate_rank(const Timeline& timeline, int32_t rank) {
  const std::vector<Action>& actions = timeline.schedule.ranks[static_cast<size_t>(rank)];
  const std::vector<ActionRecord>& records = timeline.ranks[static_cast<size_t>(rank)];
  require<DataError>(records.size() == actions.size(), "timeline: rank ", rank, " has ", records.size(),
                     " records, but its list has ", actions.size(), " actions");
  std::array<std::optional<Seconds>, 2> lane_ends;
  for (size_t i = 0; i < actions.size(); ++i) {
    const auto& [action, begin, ready, end] = records[i];
    const std::string where = cat("timeline: ", location(timeline.schedule, rank, i));
    require<DataError>(action == actions[i], where, ": its record is of ", to_string(action));
    const bool is_finite =
        std::isfinite(begin.count()) && std::isfinite(ready.count()) && std::isfinite(end.count());
    require<DataError>(is_finite && begin <= ready && ready <= end, where, ": begin ", begin.count(),
                       ", ready ", ready.count(), " and end ", end.count(),
                       " must be finite and in this order");
    std::optional<Seconds>& lane_end = lane_ends[is_communication(action.op) ? 1 : 0];
    require<DataError>(!lane_end || begin >= *lane_end, where, ": begins at ", begin.count(),
                       ", before the previous action ends");
    lane_end = end;
  }
}

ActionRecord parse_record(std::string_view line, size_t number) {
  const std::vector<std::string> words = split(line, ' ');
  const std::string where = cat("action records, line ", number, ": ");
  require<DataError>(words.size() == 4, where, "must be an action and 3 times, got \"", line, "\"");
  ActionRecord record;
  try {
    record.action = schedule::parse_action(words[0]);
  } catch (const ConfigError& error) {
    throw DataError(where + error.what());
  }
  const auto parse_time = [&](const std::string& word) {
    const std::optional<double> seconds = parse_double(word);
    require<DataError>(seconds && std::isfinite(*seconds), where, "times must be finite numbers, got \"",
                       word, "\"");
    return Seconds(*seconds);
  };
  record.begin = parse_time(words[1]);
  record.ready = parse_time(words[2]);
  record.end = parse_time(words[3]);
  return record;
}

}  // namespace

void validate(const Timeline& timeline) {
  validate(timeline.schedule);
  require<DataError>(timeline.ranks.size() == timeline.schedule.ranks.size(), "timeline: it has ",
                     timeline.ranks.size(), timeline.ranks.size() == 1 ? " rank" : " ranks",
                     ", but its schedule has ", timeline.schedule.ranks.size());
  for (int32_t rank = 0; rank < timeline.schedule.shape.ranks; ++rank) validate_rank(timeline, rank);
}

std::string to_text(std::span<const ActionRecord> records) {
  std::string text = cat(records.size(), "\n");
  for (const ActionRecord& record : records) {
    text += to_string(record.action);
    for (const Seconds time : {record.begin, record.ready, record.end}) {
      text += " " + braid::to_text(time.count());
    }
    text += "\n";
  }
  return text;
}

std::vector<ActionRecord> records_from_text(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  require<DataError>(lines.back().empty(), "action records: the last line, \"", lines.back(),
                     "\", is truncated");
  lines.pop_back();
  require<DataError>(!lines.empty(), "action records: the text is empty");
  const std::optional<int64_t> count = parse_int(lines[0]);
  require<DataError>(count && *count >= 0, "action records, line 1: must be their count, got \"", lines[0],
                     "\"");
  require<DataError>(static_cast<size_t>(*count) == lines.size() - 1, "action records: the count is ", *count,
                     ", but the number of records is ", lines.size() - 1);
  std::vector<ActionRecord> records;
  for (size_t i = 1; i < lines.size(); ++i) records.push_back(parse_record(lines[i], i + 1));
  return records;
}

Simulation from_first_start(const Schedule& schedule, Simulation simulation) {
  std::optional<Seconds> first;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      if (!is_compute(schedule.ranks[rank][i].op)) continue;
      const Seconds start = simulation.ranks[rank][i].start;
      first = std::min(first.value_or(start), start);
    }
  }
  for (std::vector<Interval>& intervals : simulation.ranks) {
    for (Interval& interval : intervals) {
      interval.start -= first.value_or(Seconds(0));
      interval.end -= first.value_or(Seconds(0));
    }
  }
  return simulation;
}

Simulation measured_simulation(const Timeline& timeline) {
  validate(timeline);
  Simulation result;
  for (const std::vector<ActionRecord>& records : timeline.ranks) {
    std::vector<Interval>& intervals = result.ranks.emplace_back();
    for (const ActionRecord& record : records) {
      intervals.push_back({.start = record.ready, .end = record.end});
    }
  }
  result = from_first_start(timeline.schedule, std::move(result));
  summarise(timeline.schedule, result);
  result.peak_live_activations = peak_live_activations(timeline.schedule);
  return result;
}

}  // namespace braid::report
