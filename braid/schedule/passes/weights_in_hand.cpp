#include "braid/schedule/passes/weights_in_hand.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/clock.h"
#include "braid/schedule/replay.h"

namespace braid::schedule {
namespace {

// Runs the lists on a clock, as simulate does, and decides about each W when the clock reaches it. Each
// choice lets the rank and its outputs be no later than they would be without it; times only depend on
// earlier ones by sums and maxima, so nothing that follows on any rank is later either.
class Placing {
 public:
  Placing(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        result_(schedule.ranks.size()),
        now_(schedule.ranks.size(), Seconds(0)),
        is_taken_(schedule.ranks.size(), false),
        available_(static_cast<size_t>(handover_count(schedule.shape))),
        has_input_gradient_(static_cast<size_t>(schedule.shape.stages()) *
                            static_cast<size_t>(schedule.shape.microbatches)) {}

  std::vector<std::vector<Action>> run() {
    std::vector<size_t> lengths;
    for (const std::vector<Action>& list : schedule_.ranks) lengths.push_back(list.size());
    Replay replay(std::move(lengths));
    replay.run([&](int32_t rank, size_t position) { return try_action(rank, position); });
    require<InternalError>(!replay.first_stuck(), schedule_.name, " is stuck, though it was checked");
    return std::move(result_);
  }

 private:
  // The action at `position` of `rank`; nothing beyond the end of the list.
  const Action* action_at(int32_t rank, size_t position) const {
    const std::vector<Action>& list = schedule_.ranks[static_cast<size_t>(rank)];
    return position < list.size() ? &list[position] : nullptr;
  }

  std::optional<int32_t> try_action(int32_t rank, size_t position) {
    const auto row = static_cast<size_t>(rank);
    if (std::exchange(is_taken_[row], false)) return std::nullopt;
    const Action& action = *action_at(rank, position);
    const Action* next = action_at(rank, position + 1);
    const bool may_join_next = action.op == Op::kBackwardWeight && action.segment == kAllSegments && next &&
                               has_exchange(rank, *next);
    const Action& waits = may_join_next ? *next : action;
    Seconds arrival{0};
    if (const std::optional<Handover> input = input_of(schedule_, rank, waits)) {
      const std::optional<Seconds>& time = available_[static_cast<size_t>(input->tag)];
      if (!time) return input->from.rank;
      arrival = *time;
    }
    if (may_join_next) {
      const Seconds alone = std::max(now_[row] + duration(rank, action), arrival) + duration(rank, *next);
      const Action joined = with_weight(*next, action);
      const Seconds together = std::max(now_[row], arrival) + duration(rank, joined);
      is_taken_[row] = together < alone;
      perform(rank, is_taken_[row] ? joined : action, is_taken_[row] ? arrival : Seconds(0));
      return std::nullopt;
    }
    is_taken_[row] = joins_weight_after(rank, action, next);
    perform(rank, is_taken_[row] ? with_weight(action, *next) : action, arrival);
    return std::nullopt;
  }

  // Whether `next` is a W that may run within `action` without delaying what `action` makes.
  bool joins_weight_after(int32_t rank, const Action& action, const Action* next) const {
    if (!next || next->op != Op::kBackwardWeight || next->segment != kAllSegments) return false;
    if (!has_exchange(rank, action) || !has_input_gradient_[index(rank, *next)]) return false;
    const Seconds weight = duration(rank, *next);
    if (weight == Seconds(0)) return false;
    return !output_of(schedule_, rank, action) || weight <= exchange(rank, action);
  }

  void perform(int32_t rank, const Action& action, Seconds arrival) {
    const auto row = static_cast<size_t>(rank);
    now_[row] = std::max(now_[row], arrival) + duration(rank, action);
    if (const std::optional<Handover> output = output_of(schedule_, rank, action)) {
      available_[static_cast<size_t>(output->tag)] =
          now_[row] + (output->is_local() ? Seconds(0) : durations_.communication);
    }
    if (is_input_gradient(action.op)) has_input_gradient_[index(rank, action)] = true;
    result_[row].push_back(action);
  }

  static Action with_weight(Action action, const Action& weight) {
    action.weight = {.chunk = weight.chunk, .microbatch = weight.microbatch};
    return action;
  }

  bool has_exchange(int32_t rank, const Action& action) const {
    return may_have_weight(action.op) && action.segment == kAllSegments && !action.weight.exists() &&
           exchange(rank, action) > Seconds(0);
  }

  Seconds exchange(int32_t rank, const Action& action) const {
    return durations_.of(stage_of(schedule_, {.rank = rank, .chunk = action.chunk})).exchange_of(action.op);
  }

  Seconds duration(int32_t rank, const Action& action) const {
    return is_compute(action.op) ? duration_of(schedule_, durations_, rank, action) : Seconds(0);
  }

  size_t index(int32_t rank, const Action& action) const {
    const int32_t stage = stage_of(schedule_, {.rank = rank, .chunk = action.chunk});
    return static_cast<size_t>(stage) * static_cast<size_t>(schedule_.shape.microbatches) +
           static_cast<size_t>(action.microbatch);
  }

  const Schedule& schedule_;
  const Durations& durations_;
  std::vector<std::vector<Action>> result_;
  std::vector<Seconds> now_;                       // by rank
  std::vector<char> is_taken_;                     // by rank: its next action is part of the one before
  std::vector<std::optional<Seconds>> available_;  // by tag
  std::vector<char> has_input_gradient_;           // by stage and microbatch
};

}  // namespace

Schedule place_weights_in_hand(Schedule schedule, const Durations& durations) {
  require<ConfigError>(!has_messages(schedule), "schedule ", schedule.name,
                       " has messages already: W's in hand are placed among compute actions");
  check(schedule);
  validate(durations, schedule);
  schedule.ranks = Placing(schedule, durations).run();
  return schedule;
}

}  // namespace braid::schedule
