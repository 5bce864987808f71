#include "braid/schedule/csv.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::schedule {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kOverlap = "OVERLAP_F_B";
// The maximum number of stages or microbatches, see validate.
constexpr int64_t kMostIndex = (int64_t{1} << 28) - 1;

// PyTorch's types that do not compute.
constexpr std::array<std::string_view, 10> kCommunication = {
    "SEND_F",      "RECV_F",  "SEND_B",  "RECV_B",      "WAIT_SEND_F",
    "WAIT_SEND_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};

// A place in the text; row and number count from 0.
struct Cell {
  size_t row = 0;
  size_t number = 0;
  std::string_view text;
};

// Op, stage and microbatch, if the op has them: "2F0", "1UPDATE", "NORM".
struct StageAction {
  Op op = Op::kForward;
  std::optional<int32_t> stage;
  int32_t microbatch = 0;
};

using Rows = std::vector<std::vector<StageAction>>;

// Safe for a terminal, whatever the file contains.
std::string printable(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string result;
  for (const char c : text.substr(0, kMost)) result += ' ' <= c && c <= '~' ? c : '?';
  return text.size() > kMost ? result + "..." : result;
}

// Removes and returns the part of `text` before `separator`.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

class Reader {
 public:
  Reader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  Schedule read() {
    std::string_view rest = text_.substr(0, text_.find_last_not_of(" \t\r\n") + 1);
    require<ConfigError>(!rest.empty(), "schedule ", name_,
                         " has no rows: write one per rank, with cells like 0F0,0B0");
    while (!rest.empty()) read_row(take_until(rest, '\n'));
    Schedule schedule = {.name = name_, .shape = shape()};
    std::vector<int32_t> rank_of_stage;
    for (const auto& [stage, cell] : first_of_stage_) rank_of_stage.push_back(static_cast<int32_t>(cell.row));
    place_stages(schedule, rank_of_stage);
    for (const auto& row : rows_) {
      std::vector<Action>& list = schedule.ranks.emplace_back();
      list.reserve(row.size());
      for (const StageAction& action : row) {
        list.push_back({.op = action.op,
                        .chunk = action.stage ? place_of(schedule, *action.stage).chunk : 0,
                        .microbatch = action.microbatch});
      }
    }
    return schedule;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void reject(const Cell& cell, const Parts&... parts) const {
    throw ConfigError(cat("schedule ", name_, ", row ", cell.row + 1, ", cell ", cell.number + 1, " (\"",
                          printable(cell.text), "\"): ", parts...));
  }

  void read_row(std::string_view row) {
    const size_t index = rows_.size();
    rows_.emplace_back();
    for (size_t number = 0; !row.empty(); ++number) {
      const Cell cell = {.row = index, .number = number, .text = trim(take_until(row, ','))};
      if (!cell.text.empty()) read_cell(cell);
    }
  }

  void read_cell(const Cell& cell) {
    if (cell.text.front() != '(') return read_action(cell, cell.text);
    const size_t close = cell.text.find(')');
    if (close == std::string_view::npos || cell.text.substr(close + 1) != kOverlap) {
      reject(cell, "a compound action ends in )", kOverlap, ", as in (5F3;2B1)", kOverlap);
    }
    for (const std::string& part : split(cell.text.substr(1, close - 1), ';')) read_action(cell, trim(part));
  }

  void read_action(const Cell& cell, std::string_view text) {
    const size_t type = std::min(text.find_first_not_of(kDigits), text.size());
    const size_t number = std::min(text.find_first_of(kDigits, type), text.size());
    const std::string_view type_text = text.substr(type, number - type);
    if (std::find(kCommunication.begin(), kCommunication.end(), type_text) != kCommunication.end()) {
      reject(cell,
             "give compute actions (PyTorch's compute_only format), or those with the end of the step: braid "
             "places "
             "messages itself");
    }
    const std::optional<Op> op = parse_type(type_text);
    const std::string_view microbatch_text = text.substr(number);
    if (!op || (type == 0) != (indices_of(*op) == Indices::kNone) ||
        microbatch_text.empty() == (indices_of(*op) == Indices::kMicrobatch) ||
        microbatch_text.find_first_not_of(kDigits) != std::string_view::npos) {
      reject(cell,
             "write stage, type and microbatch, as in 2F0, where the types are F, B (whole backward), I "
             "(gradient of the input) and W (gradients of the weights); or two at once, as in (5F3;2B1)",
             kOverlap,
             "; or what ends a step, as in 2UPDATE, 2REDUCE_TIED, 2WAIT_REDUCE_TIED, NORM and WAIT_NORM");
    }
    StageAction& action = rows_.back().emplace_back(StageAction{.op = *op});
    if (type > 0) {
      action.stage = parse_index(cell, text.substr(0, type), "stage");
      place(cell, *action.stage);
    }
    if (!is_compute(*op)) return;
    action.microbatch = parse_index(cell, microbatch_text, "microbatch");
    if (action.microbatch > last_microbatch_) {
      last_microbatch_ = action.microbatch;
      last_microbatch_cell_ = cell;
    }
    ++compute_actions_;
  }

  static std::optional<Op> parse_type(std::string_view text) {
    for (int i = 0; i < kOpCount; ++i) {
      const auto op = static_cast<Op>(i);
      if (text == to_string(op) && (is_compute(op) || is_step_end(op))) return op;
    }
    return std::nullopt;
  }

  int32_t parse_index(const Cell& cell, std::string_view digits, std::string_view what) const {
    const std::optional<int64_t> value = parse_int(digits);
    if (!value || *value > kMostIndex) reject(cell, "a ", what, " may be at most ", kMostIndex);
    return static_cast<int32_t>(*value);
  }

  void place(const Cell& cell, int32_t stage) {
    const auto [found, is_new] = first_of_stage_.try_emplace(stage, cell);
    if (found->second.row == cell.row) return;
    reject(cell, "stage ", stage, " is in row ", found->second.row + 1, ", cell ", found->second.number + 1,
           " too: a stage lives on one rank");
  }

  // Proved before anything is allocated that grows with the numbers in the cells.
  PipelineShape shape() const {
    const auto ranks = std::ssize(rows_);
    const auto stages = std::ssize(first_of_stage_);
    require<ConfigError>(stages > 0, "schedule ", name_, " has only empty cells: write cells like 0F0,0B0");
    require_every_stage();
    require_equal_rows();
    const int64_t microbatches = int64_t{last_microbatch_} + 1;
    // At least F and B for each stage and microbatch.
    if (compute_actions_ / 2 / stages < microbatches) {
      reject(last_microbatch_cell_,
             "an F and a B of every microbatch up to this one on every stage would be ",
             2 * stages * microbatches, " actions, but there are only ", compute_actions_);
    }
    return {.ranks = static_cast<int32_t>(ranks),
            .chunks_per_rank = static_cast<int32_t>(stages / ranks),
            .microbatches = static_cast<int32_t>(microbatches)};
  }

  void require_every_stage() const {
    int32_t expected = 0;
    for (const auto& [stage, cell] : first_of_stage_) {
      if (stage != expected) {
        reject(cell, "stage ", stage, " is there, but stage ", expected,
               " is in no row: number them from 0 without a gap");
      }
      ++expected;
    }
  }

  void require_equal_rows() const {
    std::vector<int64_t> held(rows_.size(), 0);
    for (const auto& [stage, cell] : first_of_stage_) ++held[cell.row];
    for (size_t row = 0; row < held.size(); ++row) {
      require<ConfigError>(held[row] == held[0], "schedule ", name_, ", row ", row + 1, " has ", held[row],
                           held[row] == 1 ? " stage" : " stages", ", but row 1 has ", held[0],
                           ": every rank must hold the same number");
    }
  }

  std::string_view text_;
  std::string name_;
  Rows rows_;
  std::map<int32_t, Cell> first_of_stage_;
  int64_t compute_actions_ = 0;
  int32_t last_microbatch_ = -1;
  Cell last_microbatch_cell_;
};

}  // namespace

std::string to_csv(const Schedule& schedule) {
  validate(schedule);
  require<ConfigError>(!schedule.data.is_on(), "schedule ", schedule.name,
                       " is cut into segments, which the format has no cells for: write its compute actions");
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      require_at(
          !list[i].weight.exists(), schedule, rank, i,
          "the format has no cells for a W in hand: write the schedule without, a run places it again");
    }
  }
  std::string text;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    bool is_first = true;
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (!is_compute(action.op) && !is_step_end(action.op)) continue;
      if (!is_first) text += ',';
      is_first = false;
      const Indices indices = indices_of(action.op);
      if (indices != Indices::kNone) {
        text += std::to_string(stage_of(schedule, {.rank = rank, .chunk = action.chunk}));
      }
      text += to_string(action.op);
      if (indices == Indices::kMicrobatch) text += std::to_string(action.microbatch);
    }
    text += '\n';
  }
  return text;
}

Schedule from_csv(std::string_view text, std::string name) { return Reader(text, std::move(name)).read(); }

}  // namespace braid::schedule
