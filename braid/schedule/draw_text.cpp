#include "braid/schedule/draw_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/simulate.h"
#include "braid/schedule/step_interval.h"

namespace braid::schedule {
namespace {

enum class Style : uint8_t { kIdle, kForward, kBackward, kBackwardInput, kBackwardWeight };

// One slot of one rank; all texts have the same number of columns.
struct Cell {
  std::string text;
  Style style = Style::kIdle;
};

using Grid = std::vector<std::vector<Cell>>;  // [rank][slot]

constexpr std::string_view kIdleMark = "\u00b7";

std::string repeated(std::string_view mark, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += mark;
  return text;
}

std::string padded(std::string text, size_t columns) {
  if (text.size() < columns) text.append(columns - text.size(), ' ');
  return text;
}

std::string_view colour(Style style) {
  switch (style) {
    case Style::kForward:
      return "\033[97;44m";
    case Style::kBackward:
    case Style::kBackwardInput:
      return "\033[30;42m";
    case Style::kBackwardWeight:
      return "\033[30;43m";
    case Style::kIdle:
      return "\033[90m";
  }
  return "";
}

Style style_of(Op op) {
  switch (op) {
    case Op::kForward:
      return Style::kForward;
    case Op::kBackward:
      return Style::kBackward;
    case Op::kBackwardInput:
      return Style::kBackwardInput;
    case Op::kBackwardWeight:
      return Style::kBackwardWeight;
    case Op::kSendForward:
    case Op::kRecvForward:
    case Op::kSendBackward:
    case Op::kRecvBackward:
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
    case Op::kReduceTied:
    case Op::kWaitReduceTied:
    case Op::kNorm:
    case Op::kWaitNorm:
    case Op::kUpdate:
    case Op::kGather:
    case Op::kWaitGather:
    case Op::kRelease:
    case Op::kReduce:
    case Op::kWaitReduce:
    case Op::kReduceDp:
    case Op::kWaitReduceDp:
      return Style::kIdle;
  }
  return Style::kIdle;
}

// "F3", or "bF3" with several chunks.
std::string label(const Schedule& schedule, const Action& action) {
  std::string text;
  if (schedule.shape.chunks_per_rank > 1) text += static_cast<char>('a' + action.chunk % 26);
  return text + std::string(to_string(action.op)) + std::to_string(action.microbatch);
}

size_t columns_per_slot(const Schedule& schedule) {
  const size_t digits = std::to_string(schedule.shape.microbatches - 1).size();
  return 1 + digits + (schedule.shape.chunks_per_rank > 1 ? 1 : 0);
}

Grid make_grid(const Schedule& schedule, const Simulation& simulation, size_t slots, size_t width) {
  Grid grid(schedule.ranks.size(), std::vector<Cell>(slots, {repeated(kIdleMark, width), Style::kIdle}));
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action& action = schedule.ranks[rank][i];
      if (!is_compute(action.op)) continue;
      const auto slot = static_cast<size_t>(std::llround(simulation.ranks[rank][i].start.count()));
      const std::string text = label(schedule, action);
      if (action.weight.exists()) {
        // Small: it runs within the action before it.
        std::string weight = label(schedule, *weight_action(action));
        std::replace(weight.begin(), weight.end(), 'W', 'w');
        grid[rank][slot] = {padded(text, width), style_of(action.op)};
        grid[rank][slot + 1] = {padded(weight, width), Style::kBackwardWeight};
        continue;
      }
      if (action.op != Op::kBackward) {
        grid[rank][slot] = {padded(text, width), style_of(action.op)};
        continue;
      }
      const std::string both = "[" + padded(text, 2 * width - 2) + "]";
      grid[rank][slot] = {both.substr(0, width), Style::kBackward};
      grid[rank][slot + 1] = {both.substr(width), Style::kBackward};
    }
  }
  return grid;
}

// The numbers of the first and of each fifth slot, where they fit next to their neighbours.
std::string ruler(size_t first, size_t end, size_t width) {
  std::string line;
  for (size_t slot = first; slot < end; ++slot) {
    const size_t column = (slot - first) * width;
    if ((slot % 5 != 0 && slot != first) || (column != 0 && column <= line.size())) continue;
    line = padded(line, column) + std::to_string(slot);
  }
  return line;
}

std::string band(const Grid& grid, size_t first, size_t end, size_t width, Colours colours) {
  const std::string title = "rank ";
  const size_t digits = std::to_string(grid.size() - 1).size();
  std::string text = padded("slot", title.size() + digits + 1) + " " + ruler(first, end, width) + "\n";
  for (size_t rank = 0; rank < grid.size(); ++rank) {
    const std::string number = std::to_string(rank);
    text += title + std::string(digits - number.size(), ' ') + number + " |";
    Style current = Style::kIdle;
    bool is_first = true;
    for (size_t slot = first; slot < end; ++slot) {
      const Cell& cell = grid[rank][slot];
      if (colours == Colours::kAnsi && (is_first || cell.style != current)) {
        text += "\033[0m" + std::string(colour(cell.style));
      }
      current = cell.style;
      is_first = false;
      text += cell.text;
    }
    text += colours == Colours::kAnsi ? "\033[0m|\n" : "|\n";
  }
  return text;
}

std::string count_text(int64_t count, std::string_view noun) {
  return cat(count, " ", noun, count == 1 ? "" : "s");
}

std::string heading(const Schedule& schedule) {
  const PipelineShape& shape = schedule.shape;
  std::string text = cat(schedule.name, ": ", count_text(shape.ranks, "rank"), ", ");
  if (shape.chunks_per_rank > 1) text += cat(shape.chunks_per_rank, " chunks per rank, ");
  return cat(text, shape.microbatches, shape.microbatches == 1 ? " microbatch\n" : " microbatches\n");
}

std::string legend(const Schedule& schedule) {
  std::string text = "F forward";
  if (uses(schedule, Op::kBackward)) text += ", [B] backward";
  if (uses(schedule, Op::kBackwardInput)) text += ", I input gradient, W weight gradient";
  if (count_weights_in_hand(schedule) > 0) text += ", w within the action before it";
  text += cat(", ", kIdleMark, " idle; the number is the microbatch");
  if (schedule.shape.chunks_per_rank > 1) text += ", the small letter before it the chunk";
  return text + "\n";
}

// Numbers that are equal on all ranks are given once: "4 3 2 1", or "24 on every rank".
std::string per_rank_text(const std::vector<int32_t>& numbers) {
  if (numbers.size() > 1 &&
      std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end()) {
    return cat(numbers.front(), " on every rank");
  }
  std::string text;
  for (const int32_t number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

std::string step_end_text(const Schedule& schedule, const Simulation& simulation) {
  if (!uses(schedule, Op::kUpdate)) return "";
  std::vector<int32_t> slots;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action>& list = schedule.ranks[rank];
    const auto update =
        std::find_if(list.begin(), list.end(), [](const Action& action) { return action.op == Op::kUpdate; });
    if (update == list.end()) return "";
    const Interval& interval = simulation.ranks[rank][static_cast<size_t>(update - list.begin())];
    slots.push_back(static_cast<int32_t>(std::llround(interval.start.count())));
  }
  return cat("slot of the first update per rank: ", per_rank_text(slots), "; repeated steps take ",
             brief(step_interval(schedule, Durations{}).count(), 6), " slots each\n");
}

}  // namespace

std::string draw_text(const Schedule& schedule, const DrawOptions& options) {
  require<ConfigError>(options.columns >= 40, "a drawing needs at least 40 columns, got ", options.columns);
  const Simulation simulation = simulate(schedule, Durations{});
  const auto slots = static_cast<size_t>(std::llround(simulation.step_time.count()));
  constexpr size_t kMostCells = 1'000'000;
  require<ConfigError>(slots * schedule.ranks.size() <= kMostCells, "schedule ", schedule.name, " has ",
                       schedule.ranks.size(), " ranks x ", slots,
                       " slots, too many to draw as text (at most ", kMostCells,
                       "): take fewer ranks or microbatches");
  const size_t width = columns_per_slot(schedule);
  const Grid grid = make_grid(schedule, simulation, slots, width);

  const size_t margin = std::string_view("rank  ||").size() + std::to_string(grid.size() - 1).size();
  const size_t slots_per_band = std::max<size_t>(1, (static_cast<size_t>(options.columns) - margin) / width);
  std::string text = heading(schedule);
  for (size_t first = 0; first < slots; first += slots_per_band) {
    text += "\n" + band(grid, first, std::min(slots, first + slots_per_band), width, options.colours);
  }
  const auto span = std::llround(simulation.longest_span.count());
  const auto idle = std::llround(simulation.bubble_rate * simulation.longest_span.count());
  text += "\n" + legend(schedule);
  text += cat(count_text(static_cast<int64_t>(slots), "slot"), " in all; bubble ",
              fixed(100.0 * simulation.bubble_rate, 1), "% (", idle, " of ", span,
              "); peak live activations per rank: ", per_rank_text(simulation.peak_live_activations), "\n");
  return text + step_end_text(schedule, simulation);
}

}  // namespace braid::schedule
