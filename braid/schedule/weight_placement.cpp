#include "braid/schedule/weight_placement.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "braid/schedule/cost.h"
#include "braid/schedule/replay.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Where a step stands: rank and index.
struct Position {
  size_t rank = 0;
  size_t index = 0;
};

// What a step takes from another.
struct Input {
  size_t tag = 0;
  int32_t from_rank = 0;
};

// What a step makes for another.
struct Output {
  size_t tag = 0;
  double delay = 0;
};

// F or I, with all that timing it needs.
struct Step {
  Action action;
  std::optional<Input> input;
  std::optional<Output> output;
  double time = 0;
  double weight_time = 0;
  int64_t kept = 0;         // M_B
  int64_t weight_kept = 0;  // M_W

  bool is_forward() const { return action.op == Op::kForward; }
};

// A schedule without its weight gradients.
struct Skeleton {
  std::vector<std::vector<Step>> ranks;
  std::vector<double> busy;  // per rank, weight gradients included
  double busiest = 0;
  size_t chunks = 1;
  size_t hand_overs = 0;
};

Step step_of(const Schedule& compute, const Workload& workload, int32_t rank, const Action& action) {
  const auto stage = static_cast<size_t>(stage_of(compute, {.rank = rank, .chunk = action.chunk}));
  const std::vector<StageTimes>& durations = workload.durations.stages;
  const std::vector<StageMemory>& memory = workload.memory.stages;
  const StageTimes& times = durations[durations.size() == 1 ? 0 : stage];
  const StageMemory& kept = memory[memory.size() == 1 ? 0 : stage];
  Step step = {.action = action,
               .time = (action.op == Op::kForward ? times.forward : times.backward_input).count(),
               .weight_time = times.backward_weight.count(),
               .kept = kept.forward_to_backward,
               .weight_kept = kept.backward_to_weight};
  if (!step.is_forward()) step.action.op = Op::kBackwardInput;
  if (const std::optional<Handover> input = input_of(compute, rank, action))
    step.input = {.tag = static_cast<size_t>(input->tag), .from_rank = input->from.rank};
  if (const std::optional<Handover> output = output_of(compute, rank, action)) {
    step.output = {.tag = static_cast<size_t>(output->tag),
                   .delay = output->is_local() ? 0.0 : workload.durations.communication.count()};
  }
  return step;
}

Skeleton skeleton_of(const Schedule& compute, const Workload& workload) {
  Skeleton skeleton = {.chunks = static_cast<size_t>(compute.shape.chunks_per_rank),
                       .hand_overs = static_cast<size_t>(hand_over_count(compute.shape))};
  for (size_t rank = 0; rank < compute.ranks.size(); ++rank) {
    std::vector<Step>& steps = skeleton.ranks.emplace_back();
    double& busy = skeleton.busy.emplace_back(0.0);
    for (const Action& action : compute.ranks[rank]) {
      if (!is_compute(action.op) || action.op == Op::kBackwardWeight) continue;
      const Step& step = steps.emplace_back(step_of(compute, workload, static_cast<int32_t>(rank), action));
      busy += step.time + (step.is_forward() ? 0.0 : step.weight_time);
    }
    skeleton.busiest = std::max(skeleton.busiest, busy);
  }
  return skeleton;
}

// The step that makes each hand-over, by tag.
std::vector<Position> makers_of(const Skeleton& skeleton) {
  std::vector<Position> makers(skeleton.hand_overs);
  for (size_t rank = 0; rank < skeleton.ranks.size(); ++rank) {
    const std::vector<Step>& steps = skeleton.ranks[rank];
    for (size_t index = 0; index < steps.size(); ++index) {
      if (steps[index].output) makers[steps[index].output->tag] = {rank, index};
    }
  }
  return makers;
}

bool is_same_microbatch(const Step& one, const Step& other) {
  return one.action.chunk == other.action.chunk && one.action.microbatch == other.action.microbatch;
}

// `steps` with each forward that follows an input gradient before it: after warm-up, one more microbatch in
// hand.
std::vector<Step> with_forwards_earlier(std::vector<Step> steps) {
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i].is_forward() || !steps[i + 1].is_forward()) continue;
    std::swap(steps[i], steps[i + 1]);
    ++i;
  }
  return steps;
}

// `steps` with each forward that an input gradient follows after it, unless that is its own.
std::vector<Step> with_forwards_later(std::vector<Step> steps) {
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    if (!steps[i].is_forward() || steps[i + 1].is_forward() || is_same_microbatch(steps[i], steps[i + 1]))
      continue;
    std::swap(steps[i], steps[i + 1]);
    ++i;
  }
  return steps;
}

// What a rank does with a wait that is too short for a whole W.
struct Rules {
  /// The span above which a rank would rather be late: if the wait would make it longer, W comes first. 0
  /// fills every wait, kNever none.
  double target = 0.0;
  /// The part of a W that a wait must have room for to be filled whatever the target.
  double enough = 1.0;
  std::vector<char> held;  // per step: no W that delays it
};

// What is known of a step after a run.
struct Trace {
  bool is_bound = false;    // it started when its input came
  bool is_delayed = false;  // by a W that did not fit into its wait
};

// One way to place the weight gradients.
struct Filling {
  Cost cost;
  double longest_span = 0;
  size_t longest_rank = 0;
  std::vector<std::vector<Action>> ranks;
  std::vector<std::vector<Trace>> traces;
};

// One rank on its way through its steps.
class Filler {
 public:
  Filler(const std::vector<Step>& steps, size_t chunks, double busy, int64_t limit, const Rules& rules)
      : steps_(steps), total_(busy), limit_(limit), rules_(rules), next_weight_(chunks, 0) {
    actions_.reserve(2 * steps.size());
    traces_.resize(steps.size());
  }

  // Runs the step whose input arrives at `arrival`, W before it where the rules say so. Returns its end, or
  // nothing if memory has no room for it.
  std::optional<double> run(size_t index, double arrival) {
    const Step& step = steps_[index];
    int64_t change = step.is_forward() ? step.kept : step.weight_kept - step.kept;
    while (kept_ + change > limit_ && run_weight(kNever)) {
    }
    const bool is_fused = kept_ + change > limit_ && !step.is_forward() && is_next_weight(step);
    if (is_fused) change = -step.kept;
    if (kept_ + change > limit_) return std::nullopt;
    const double rounding = 1e-9 * total_;
    while (run_weight(arrival + rounding)) {
    }
    fill_rest(index, arrival, rounding);
    traces_[index].is_bound = arrival >= now_ - rounding;
    start_at(std::max(now_, arrival));
    add(step.action, step.time, change);
    if (is_fused) {
      actions_.back().op = Op::kBackward;
      add_time(step.weight_time);
      ++next_weight_[static_cast<size_t>(step.action.chunk)];
    } else if (!step.is_forward()) {
      pending_.push_back(&step);
    }
    return now_;
  }

  void finish() {
    while (run_weight(kNever)) {
    }
  }

  double now() const { return now_; }
  double span() const { return now_ - first_.value_or(now_); }
  int64_t peak() const { return peak_; }
  std::vector<Action> take_actions() { return std::move(actions_); }
  std::vector<Trace> take_traces() { return std::move(traces_); }

 private:
  bool is_next_weight(const Step& step) const {
    return step.action.microbatch == next_weight_[static_cast<size_t>(step.action.chunk)];
  }

  // Runs the oldest W that may come next in its chunk, if there is one and it ends by `end`.
  bool run_weight(double end) {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Step* step) { return is_next_weight(*step); });
    if (found == pending_.end() || now_ + (*found)->weight_time > end) return false;
    const Step& step = **found;
    pending_.erase(found);
    ++next_weight_[static_cast<size_t>(step.action.chunk)];
    add({Op::kBackwardWeight, step.action.chunk, step.action.microbatch}, step.weight_time,
        -step.weight_kept);
    return true;
  }

  void fill_rest(size_t index, double arrival, double rounding) {
    if (arrival <= now_ + rounding || rules_.held[index]) return;
    const double wait = arrival - now_;
    const bool is_too_long = total_ + (span() - busy_) + wait > rules_.target;
    traces_[index].is_delayed = run_weight(is_too_long ? kNever : now_ + wait / rules_.enough);
  }

  void start_at(double time) {
    if (!first_) first_ = time;
    now_ = time;
  }

  void add(const Action& action, double time, int64_t change) {
    actions_.push_back(action);
    add_time(time);
    kept_ += change;
    peak_ = std::max(peak_, kept_);
  }

  void add_time(double time) {
    now_ += time;
    busy_ += time;
  }

  const std::vector<Step>& steps_;
  double total_;
  int64_t limit_;
  const Rules& rules_;
  std::vector<int32_t> next_weight_;  // per chunk
  std::deque<const Step*> pending_;   // I has run and W has not, oldest first
  double now_ = 0;
  double busy_ = 0;
  std::optional<double> first_;
  int64_t kept_ = 0;
  int64_t peak_ = 0;
  std::vector<Action> actions_;
  std::vector<Trace> traces_;
};

// Runs all ranks together. Nothing if one of them has no room.
std::optional<Filling> fill(const Skeleton& skeleton, int64_t limit, const std::vector<Rules>& rules) {
  constexpr double kNotYet = -1.0;
  std::vector<Filler> fillers;
  fillers.reserve(skeleton.ranks.size());
  std::vector<size_t> lengths;
  for (size_t rank = 0; rank < skeleton.ranks.size(); ++rank) {
    fillers.emplace_back(skeleton.ranks[rank], skeleton.chunks, skeleton.busy[rank], limit, rules[rank]);
    lengths.push_back(skeleton.ranks[rank].size());
  }
  std::vector<double> available(skeleton.hand_overs, kNotYet);
  Replay replay(std::move(lengths));
  replay.run([&](int32_t rank, size_t index) -> std::optional<int32_t> {
    const Step& step = skeleton.ranks[static_cast<size_t>(rank)][index];
    const double arrival = step.input ? available[step.input->tag] : 0.0;
    if (arrival == kNotYet) return step.input->from_rank;
    const std::optional<double> end = fillers[static_cast<size_t>(rank)].run(index, arrival);
    if (!end) return rank;
    if (step.output) available[step.output->tag] = *end + step.output->delay;
    return std::nullopt;
  });
  if (replay.first_stuck()) return std::nullopt;

  Filling filling;
  double step_time = 0;
  for (size_t rank = 0; rank < fillers.size(); ++rank) {
    Filler& filler = fillers[rank];
    filler.finish();
    if (filler.span() > filling.longest_span) {
      filling.longest_span = filler.span();
      filling.longest_rank = rank;
    }
    step_time = std::max(step_time, filler.now());
    filling.cost.peak_memory = std::max(filling.cost.peak_memory, filler.peak());
    filling.ranks.push_back(filler.take_actions());
    filling.traces.push_back(filler.take_traces());
  }
  filling.cost.longest_span = parts_of(Seconds(filling.longest_span), Seconds(skeleton.busiest));
  filling.cost.step_time = parts_of(Seconds(step_time), Seconds(skeleton.busiest));
  return filling;
}

// Looks for rules that make the longest span short.
class Search {
 public:
  Search(Skeleton skeleton, int64_t limit) : skeleton_(std::move(skeleton)), limit_(limit) {
    int64_t actions = 1;
    for (const std::vector<Step>& steps : skeleton_.ranks) actions += 3 * std::ssize(steps) / 2;
    // A dozen for the start; then five changes per rank in a round, and few gain from a third round.
    budget_ = std::min(kPlacementWork / actions, 16 + 12 * std::ssize(skeleton_.ranks));
  }

  std::optional<Filling> run() {
    for (const double enough : {1.0, 0.5}) {
      for (const double target : {0.0, kNever}) try_rules(same_for_all(target, enough));
      if (!best_) return std::nullopt;
      for (const double share : {0.125, 0.25, 0.5, 0.75}) try_rules(same_for_all(between(share), enough));
    }
    while (!is_done() && improve_ranks()) {
    }
    while (!is_done() && hold_critical_steps()) {
    }
    return std::move(best_);
  }

 private:
  // No span is shorter than the computing of the busiest rank.
  bool is_done() const { return budget_ <= 0 || best_->longest_span <= skeleton_.busiest; }

  double between(double share) const {
    return skeleton_.busiest + share * (best_->longest_span - skeleton_.busiest);
  }

  std::vector<Rules> same_for_all(double target, double enough) const {
    std::vector<Rules> rules;
    for (const std::vector<Step>& steps : skeleton_.ranks) {
      rules.push_back({.target = target, .enough = enough, .held = std::vector<char>(steps.size(), false)});
    }
    return rules;
  }

  // Whether they are better than the best; or at least not worse, where `or_equal`.
  enum class Accept { kBetter, kNotWorse };
  bool try_rules(std::vector<Rules> rules, Accept accept = Accept::kBetter) {
    --budget_;
    std::optional<Filling> filling = fill(skeleton_, limit_, rules);
    if (!filling) return false;
    if (best_ && (accept == Accept::kBetter ? filling->cost >= best_->cost
                                            : filling->cost.longest_span > best_->cost.longest_span)) {
      return false;
    }
    best_ = std::move(filling);
    rules_ = std::move(rules);
    return true;
  }

  // One rank at a time: some should fill every wait, some none, and some do just enough; some need one
  // microbatch more in hand than others.
  bool improve_ranks() {
    bool is_better = false;
    for (size_t rank = 0; rank < rules_.size(); ++rank) {
      for (const double target : {0.0, between(1.0 - 1e-6), kNever}) {
        is_better |= try_rank(rank, skeleton_.ranks[rank], target);
      }
      for (const auto move : {with_forwards_earlier, with_forwards_later}) {
        is_better |= try_rank(rank, move(skeleton_.ranks[rank]), rules_[rank].target);
      }
    }
    return is_better;
  }

  bool try_rank(size_t rank, std::vector<Step> steps, double target) {
    if (is_done()) return false;
    std::vector<Rules> rules = rules_;
    rules[rank].target = target;
    std::swap(skeleton_.ranks[rank], steps);
    const bool is_better = try_rules(std::move(rules));
    if (!is_better) std::swap(skeleton_.ranks[rank], steps);
    return is_better;
  }

  // Holds back each W that delays a step of the longest rank's critical path. Of several paths of one length
  // each may need its turn, so no gain is no reason to stop; the number of steps is.
  bool hold_critical_steps() {
    const std::vector<Position> makers = makers_of(skeleton_);
    std::vector<Rules> rules = rules_;
    bool holds_more = false;
    for (std::optional<Position> at = last_of(best_->longest_rank); at; at = critical_before(*at, makers)) {
      if (!best_->traces[at->rank][at->index].is_delayed) continue;
      rules[at->rank].held[at->index] = true;
      holds_more = true;
    }
    return holds_more && try_rules(std::move(rules), Accept::kNotWorse);
  }

  std::optional<Position> last_of(size_t rank) const {
    return Position{rank, skeleton_.ranks[rank].size() - 1};
  }

  // The step whose end let the one at `at` start.
  std::optional<Position> critical_before(Position at, const std::vector<Position>& makers) const {
    const std::optional<Input>& input = skeleton_.ranks[at.rank][at.index].input;
    if (input && best_->traces[at.rank][at.index].is_bound) return makers[input->tag];
    if (at.index == 0) return std::nullopt;
    return Position{at.rank, at.index - 1};
  }

  Skeleton skeleton_;
  int64_t limit_;
  int64_t budget_ = 0;
  std::vector<Rules> rules_;
  std::optional<Filling> best_;
};

// What a rank keeps that runs each W in one with its I, or if older ones of its chunk are missing, as soon as
// they have run.
class LeastMemory {
 public:
  explicit LeastMemory(size_t chunks) : next_weight_(chunks, 0), pending_(chunks) {}

  void run(const Step& step) {
    const auto chunk = static_cast<size_t>(step.action.chunk);
    if (step.is_forward()) {
      kept_ += step.kept;
    } else if (step.action.microbatch == next_weight_[chunk]) {
      kept_ -= step.kept;
      ++next_weight_[chunk];
      while (pending_[chunk].erase(next_weight_[chunk]) > 0) {
        kept_ -= step.weight_kept;
        ++next_weight_[chunk];
      }
    } else {
      kept_ += step.weight_kept - step.kept;
      pending_[chunk].insert(step.action.microbatch);
    }
    peak_ = std::max(peak_, kept_);
  }

  int64_t peak() const { return peak_; }

 private:
  std::vector<int32_t> next_weight_;        // per chunk
  std::vector<std::set<int32_t>> pending_;  // per chunk
  int64_t kept_ = 0;
  int64_t peak_ = 0;
};

// Where no stage waits for I, its W may as well follow in one B.
void fuse_first_stage(Schedule& schedule) {
  const Place first = place_of(schedule, 0);
  std::vector<Action> fused;
  for (const Action& action : schedule.ranks[static_cast<size_t>(first.rank)]) {
    const Action input = {Op::kBackwardInput, action.chunk, action.microbatch};
    if (action.op == Op::kBackwardWeight && action.chunk == first.chunk && !fused.empty() &&
        fused.back() == input) {
      fused.back().op = Op::kBackward;
    } else {
      fused.push_back(action);
    }
  }
  schedule.ranks[static_cast<size_t>(first.rank)] = std::move(fused);
}

}  // namespace

int64_t least_limit(const Schedule& compute, const Memory& memory) {
  peak_memory(compute, memory);
  const Skeleton skeleton = skeleton_of(compute, {.memory = memory});
  int64_t least = 0;
  for (const std::vector<Step>& steps : skeleton.ranks) {
    LeastMemory rank(skeleton.chunks);
    for (const Step& step : steps) rank.run(step);
    least = std::max(least, rank.peak());
  }
  return least;
}

int64_t most_kept(const Schedule& compute, const Memory& memory) {
  peak_memory(compute, memory);
  const Skeleton skeleton = skeleton_of(compute, {.memory = memory});
  int64_t most = 0;
  for (const std::vector<Step>& steps : skeleton.ranks) {
    int64_t kept = 0;
    for (const Step& step : steps) {
      kept += step.is_forward() ? step.kept : step.weight_kept - step.kept;
      most = std::max(most, kept);
    }
  }
  return most;
}

std::optional<Schedule> place_weights(const Schedule& compute, const Workload& workload) {
  simulate(compute, workload.durations);
  peak_memory(compute, workload.memory);
  std::optional<Filling> best =
      Search(skeleton_of(compute, workload),
             workload.memory_limit.value_or(std::numeric_limits<int64_t>::max() / 2))
          .run();
  if (!best) return std::nullopt;
  Schedule schedule = {.name = compute.name,
                       .shape = compute.shape,
                       .placement = compute.placement,
                       .table = compute.table,
                       .ranks = std::move(best->ranks)};
  fuse_first_stage(schedule);
  return schedule;
}

}  // namespace braid::schedule
