#include "braid/schedule/search/weight_placement.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "braid/schedule/search/weight_filling.h"
#include "braid/schedule/simulate.h"

namespace braid::schedule {
namespace {

// The position of a step.
struct Position {
  size_t rank = 0;
  size_t index = 0;
};

// The step that makes each handover, by tag.
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
// flight.
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
      for (const double target : {0.0, kNoTarget}) try_rules(same_for_all(target, enough));
      if (!best_) return std::nullopt;
      for (const double share : {0.125, 0.25, 0.5, 0.75}) {
        if (!is_done()) try_rules(same_for_all(between(share), enough));
      }
    }
    while (!is_done() && improve_ranks()) {
    }
    Filling best = *best_;
    while (!is_done() && hold_critical_steps()) {
      if (best_->cost < best.cost) best = *best_;
    }
    return best;
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

  // What may replace the best so far: only what costs less, or anything with no longer span.
  enum class Accept { kBetter, kNotLonger };
  // Whether these rules replaced it.
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

  // One rank at a time: some should fill every wait, some none, and some do just enough; some need one more
  // microbatch in flight than others.
  bool improve_ranks() {
    bool is_better = false;
    for (size_t rank = 0; rank < rules_.size(); ++rank) {
      for (const double target : {0.0, between(1.0 - 1e-6), kNoTarget}) {
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
    return holds_more && try_rules(std::move(rules), Accept::kNotLonger);
  }

  std::optional<Position> last_of(size_t rank) const {
    return Position{rank, skeleton_.ranks[rank].size() - 1};
  }

  // The step whose end let the one at `at` start.
  std::optional<Position> critical_before(Position at, const std::vector<Position>& makers) const {
    const std::optional<Step::Input>& input = skeleton_.ranks[at.rank][at.index].input;
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
