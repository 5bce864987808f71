#include "braid/schedule/search/list_scheduler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

constexpr bool is_forward(VKind kind) { return kind == kForward0 || kind == kForward1; }
constexpr size_t chunk_of(VKind kind) { return kind == kForward0 || kind == kBackward0 ? 0 : 1; }

VKind kind_of(const Action& action) {
  if (action.op == Op::kForward) return action.chunk == 0 ? kForward0 : kForward1;
  return action.chunk == 0 ? kBackward0 : kBackward1;
}

// What the input gradient of a chunk adds to what its rank keeps, if it adds at all.
int64_t rise(const VRank& rank, size_t chunk) {
  return std::max<int64_t>(0, rank.backward_to_weight[chunk] - rank.forward_to_backward[chunk]);
}

// Each rank's F and I in the order that they must have; empty if the rules decide.
using KindOrders = std::vector<std::vector<VKind>>;

// One pass of list scheduling: all ranks together, always the one that can act first.
class Pass {
 public:
  Pass(const VProblem& problem, const ListRules& rules, FillRules fill, const KindOrders& given,
       const std::vector<int64_t>& allowed_bubbles)
      : problem_(problem),
        rules_(rules),
        fill_(fill),
        given_(given),
        allowed_bubbles_(allowed_bubbles),
        states_(problem.ranks.size()),
        wakes_at_(problem.ranks.size(), kNever) {
    const auto microbatches = static_cast<size_t>(problem.microbatches);
    for (State& state : states_) {
      state.order.reserve(6 * microbatches);
      state.weights.reserve(2 * microbatches);
      for (std::vector<int64_t>& arrivals : state.arrivals) arrivals.assign(microbatches, kNever);
    }
    // The first stage has its inputs from the beginning.
    states_[0].arrivals[kForward0].assign(microbatches, 0);
    wake(0, 0);
  }

  // Whether it came to the end.
  bool run() {
    while (!turns_.empty()) {
      const auto [time, rank] = turns_.top();
      turns_.pop();
      if (time == wakes_at_[rank]) act(rank);
    }
    return std::all_of(states_.begin(), states_.end(), [&](const State& state) {
      return state.order.size() == 6 * static_cast<size_t>(problem_.microbatches);
    });
  }

  // Whether another pass that allows other bubbles may have another result.
  bool depends_on_allowed() const { return depends_on_allowed_; }

  std::vector<int64_t> bubbles() const {
    std::vector<int64_t> result;
    for (const State& state : states_) result.push_back(state.bubble);
    return result;
  }

  ListOrder take_order() {
    ListOrder order;
    for (State& state : states_) {
      order.longest_span_ticks = std::max(order.longest_span_ticks, state.free_at - state.started_at);
      order.ranks.push_back(std::move(state.order));
    }
    return order;
  }

 private:
  struct State {
    int64_t started_at = kNever;
    int64_t free_at = 0;
    int64_t bubble = 0;
    int64_t memory = 0;
    std::array<int32_t, kVKinds> next{};                 // the next microbatch of each kind
    std::array<std::vector<int64_t>, kVKinds> arrivals;  // when each microbatch's input is there
    std::vector<Action> weights;                         // the W of every I so far
    size_t next_weight = 0;
    std::vector<Action> order;

    bool has_weight() const { return next_weight < weights.size(); }
    int32_t in_flight(size_t chunk) const {
      return chunk == 0 ? next[kForward0] - next[kBackward0] : next[kForward1] - next[kBackward1];
    }
  };

  // What a rank with nothing to start could wait for.
  struct Wait {
    int64_t until = kNever;
    bool is_for_forward = false;
  };

  // Whether the rank can end all that it has begun after this forward: what is in flight then, with room for
  // one microbatch on chunk 1 in any case, and the rise of an input gradient must fit. Since every rank keeps
  // to this, the oldest microbatch that is not done can always go on somewhere.
  bool is_safe(size_t rank, VKind forward) const {
    const VRank& costs = problem_.ranks[rank];
    const State& state = states_[rank];
    const int64_t on_0 = state.in_flight(0) + (forward == kForward0 ? 1 : 0);
    const int64_t on_1 = std::max(state.in_flight(1) + (forward == kForward1 ? 1 : 0), 1);
    const int64_t kept_0 = on_0 * costs.forward_to_backward[0];
    return kept_0 + on_1 * costs.forward_to_backward[1] + rise(costs, 1) <= problem_.memory_limit &&
           kept_0 + rise(costs, 0) <= problem_.memory_limit;
  }

  // Whether the kind's next microbatch may run once its input is there and every pending W is done.
  bool is_open(size_t rank, VKind kind) const {
    const VRank& costs = problem_.ranks[rank];
    const State& state = states_[rank];
    if (!given_.empty()) {
      const size_t done = state.order.size() - state.next_weight;
      return done < given_[rank].size() && given_[rank][done] == kind;
    }
    if (state.next[kind] == problem_.microbatches) return false;
    const size_t chunk = chunk_of(kind);
    if (is_forward(kind)) {
      const bool is_within =
          rules_.most_in_flight.empty() || state.in_flight(chunk) < rules_.most_in_flight[rank][chunk];
      return is_within && is_safe(rank, kind);
    }
    return state.in_flight(0) * costs.forward_to_backward[0] +
               state.in_flight(1) * costs.forward_to_backward[1] + rise(costs, chunk) <=
           problem_.memory_limit;
  }

  int64_t memory_change(size_t rank, VKind kind) const {
    const VRank& costs = problem_.ranks[rank];
    const size_t chunk = chunk_of(kind);
    const int64_t kept = costs.forward_to_backward[chunk];
    return is_forward(kind) ? kept : costs.backward_to_weight[chunk] - kept;
  }

  int64_t slot(size_t rank, VKind kind) const {
    const auto& slots = rules_.slots[rules_.slots.size() == 1 ? 0 : rank];
    return slots[kind] + int64_t{rules_.period} * states_[rank].next[kind];
  }

  // Decides what `rank` does now, or until when it waits.
  void act(size_t rank) {
    State& state = states_[rank];
    const int64_t now = wakes_at_[rank];
    std::optional<VKind> chosen;
    Wait wait;
    for (const VKind kind : {kForward0, kForward1, kBackward1, kBackward0}) {
      if (!is_open(rank, kind)) continue;
      const int64_t arrival = state.arrivals[kind][static_cast<size_t>(state.next[kind])];
      if (arrival > now) {
        if (arrival < wait.until) wait = {.until = arrival, .is_for_forward = is_forward(kind)};
      } else if (!chosen || slot(rank, kind) < slot(rank, *chosen)) {
        chosen = kind;
      }
    }
    const bool has_room = chosen && state.memory + memory_change(rank, *chosen) <= problem_.memory_limit;
    if (has_room) {
      start(rank, *chosen, now);
    } else if (state.has_weight() && (chosen || fills(rank, wait))) {
      start_weight(rank, now);
    } else {
      wake(rank, wait.until);
    }
  }

  // Whether a W runs although the rank could also wait.
  bool fills(size_t rank, const Wait& wait) {
    const State& state = states_[rank];
    const auto chunk = static_cast<size_t>(state.weights[state.next_weight].chunk);
    if (wait.until == kNever || state.free_at + problem_.ranks[rank].weight_ticks[chunk] <= wait.until)
      return true;
    if (wait.is_for_forward ? fill_.before_forward : fill_.before_backward) return true;
    const int64_t bubble = state.bubble + wait.until - state.free_at;
    depends_on_allowed_ = depends_on_allowed_ || bubble > highest_bubble_;
    return bubble > std::max(highest_bubble_, allowed_bubbles_[rank]);
  }

  void start(size_t rank, VKind kind, int64_t now) {
    State& state = states_[rank];
    const int32_t microbatch = state.next[kind];
    const auto chunk = static_cast<int32_t>(chunk_of(kind));
    state.memory += memory_change(rank, kind);
    ++state.next[kind];
    state.order.push_back({is_forward(kind) ? Op::kForward : Op::kBackwardInput, chunk, microbatch});
    if (!is_forward(kind)) state.weights.push_back({Op::kBackwardWeight, chunk, microbatch});
    occupy(rank, now, problem_.ranks[rank].ticks[kind]);
    wake(rank, state.free_at);
    hand_over(rank, kind, microbatch);
  }

  // W wait for nothing: it starts when the rank became free, even if that is decided only now.
  void start_weight(size_t rank, int64_t now) {
    State& state = states_[rank];
    const Action& action = state.weights[state.next_weight++];
    const auto chunk = static_cast<size_t>(action.chunk);
    state.memory -= problem_.ranks[rank].backward_to_weight[chunk];
    state.order.push_back(action);
    occupy(rank, state.free_at, problem_.ranks[rank].weight_ticks[chunk]);
    wake(rank, std::max(now, state.free_at));
  }

  void occupy(size_t rank, int64_t from, int64_t ticks) {
    State& state = states_[rank];
    if (state.started_at == kNever) {
      state.started_at = from;
    } else {
      state.bubble += from - state.free_at;
      highest_bubble_ = std::max(highest_bubble_, state.bubble);
    }
    state.free_at = from + ticks;
  }

  // Forwards go down the V on chunk 0 and up on chunk 1, gradients down on chunk 1 and up on chunk 0.
  void hand_over(size_t rank, VKind kind, int32_t microbatch) {
    const bool goes_down = kind == kForward0 || kind == kBackward1;
    const bool turns = rank == (goes_down ? states_.size() - 1 : 0);
    if (turns && kind == kBackward0) return;
    const size_t to_rank = turns ? rank : goes_down ? rank + 1 : rank - 1;
    const auto to_kind = turns ? static_cast<VKind>(kind + 1) : kind;
    const int64_t arrival = states_[rank].free_at + (turns ? 0 : problem_.communication_ticks);
    State& to = states_[to_rank];
    to.arrivals[to_kind][static_cast<size_t>(microbatch)] = arrival;
    const int64_t time = std::max(arrival, to.free_at);
    if (time < wakes_at_[to_rank]) wake(to_rank, time);
  }

  void wake(size_t rank, int64_t time) {
    wakes_at_[rank] = time;
    if (time != kNever) turns_.push({time, rank});
  }

  const VProblem& problem_;
  const ListRules& rules_;
  FillRules fill_;
  const KindOrders& given_;
  const std::vector<int64_t>& allowed_bubbles_;
  std::vector<State> states_;
  std::vector<int64_t> wakes_at_;  // per rank, when there is next something to decide
  // The same in the order of time, then rank. A turn at another time than its rank's is out of date.
  std::priority_queue<std::pair<int64_t, size_t>, std::vector<std::pair<int64_t, size_t>>, std::greater<>>
      turns_;
  int64_t highest_bubble_ = 0;
  bool depends_on_allowed_ = false;
};

std::optional<ListOrder> shortest_of_passes(const VProblem& problem, const ListRules& rules, FillRules fill,
                                            const KindOrders& given) {
  std::optional<ListOrder> best;
  std::vector<int64_t> allowed_bubbles(problem.ranks.size(), 0);
  for (;;) {
    Pass pass(problem, rules, fill, given, allowed_bubbles);
    if (!pass.run()) return best;
    allowed_bubbles = pass.bubbles();
    const bool is_last = !pass.depends_on_allowed();
    ListOrder order = pass.take_order();
    if (best && order.longest_span_ticks >= best->longest_span_ticks) return best;
    best = std::move(order);
    if (is_last) return best;
  }
}

}  // namespace

VProblem v_problem(const PipelineShape& shape, const Workload& workload, int64_t memory_limit) {
  Schedule schedule = {.name = "V", .shape = shape, .placement = Placement::kV};
  schedule.ranks.resize(static_cast<size_t>(shape.ranks));
  // With nothing to do yet: they reject what does not suit the shape.
  simulate(schedule, workload.durations);
  peak_memory(schedule, workload.memory);

  Seconds longest = workload.durations.communication;
  for (const StageTimes& times : workload.durations.stages) {
    longest = std::max({longest, times.forward, times.backward_input, times.backward_weight});
  }
  constexpr double kTicks = 1 << 20;
  const auto ticks = [&](Seconds time) {
    return longest > Seconds(0) ? int64_t{std::llround(time / longest * kTicks)} : int64_t{0};
  };
  VProblem problem = {.microbatches = shape.microbatches,
                      .communication_ticks = ticks(workload.durations.communication),
                      .memory_limit = memory_limit,
                      .ranks = std::vector<VRank>(static_cast<size_t>(shape.ranks))};
  for (int32_t stage = 0; stage < shape.stages(); ++stage) {
    const Place place = place_of(schedule, stage);
    const auto chunk = static_cast<size_t>(place.chunk);
    const StageTimes& times = workload.durations.of(stage);
    const StageMemory& kept = workload.memory.of(stage);
    VRank& costs = problem.ranks[static_cast<size_t>(place.rank)];
    costs.ticks[chunk == 0 ? kForward0 : kForward1] = ticks(times.forward);
    costs.ticks[chunk == 0 ? kBackward0 : kBackward1] = ticks(times.backward_input);
    costs.weight_ticks[chunk] = ticks(times.backward_weight);
    costs.forward_to_backward[chunk] = kept.forward_to_backward;
    costs.backward_to_weight[chunk] = kept.backward_to_weight;
  }
  return problem;
}

int64_t least_memory(const VRank& rank) {
  const int64_t with_both = rank.forward_to_backward[0] + rank.forward_to_backward[1] + rise(rank, 1);
  return std::max(with_both, rank.forward_to_backward[0] + rise(rank, 0));
}

ListOrder list_schedule(const VProblem& problem, const ListRules& rules, FillRules fill) {
  std::optional<ListOrder> order = shortest_of_passes(problem, rules, fill, {});
  require<InternalError>(order.has_value(), "list scheduling got stuck with ", problem.ranks.size(),
                         " ranks, ", problem.microbatches, " microbatches and a memory limit of ",
                         problem.memory_limit);
  return *std::move(order);
}

std::optional<ListOrder> fill_weights(const VProblem& problem, const std::vector<std::vector<Action>>& ranks,
                                      FillRules fill) {
  KindOrders given;
  for (const std::vector<Action>& list : ranks) {
    std::vector<VKind>& kinds = given.emplace_back();
    for (const Action& action : list) {
      if (action.op != Op::kBackwardWeight) kinds.push_back(kind_of(action));
    }
  }
  return shortest_of_passes(problem, {}, fill, given);
}

}  // namespace braid::schedule
