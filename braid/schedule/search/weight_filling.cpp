#include "braid/schedule/search/weight_filling.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "braid/schedule/replay.h"

namespace braid::schedule {
namespace {

// Of run_weight: whether it ends in time does not matter.
constexpr double kWhenever = std::numeric_limits<double>::infinity();

Step step_of(const Schedule& compute, const Workload& workload, int32_t rank, const Action& action) {
  const int32_t stage = stage_of(compute, {.rank = rank, .chunk = action.chunk});
  const StageTimes& times = workload.durations.of(stage);
  const StageMemory& kept = workload.memory.of(stage);
  Step step = {.action = action,
               .time = (action.op == Op::kForward ? times.forward : times.backward_input).count(),
               .weight_time = times.backward_weight.count(),
               .kept = kept.forward_to_backward,
               .weight_kept = kept.backward_to_weight};
  if (!step.is_forward()) step.action.op = Op::kBackwardInput;
  if (const std::optional<Handover> input = input_of(compute, rank, action))
    step.input = Step::Input{.tag = static_cast<size_t>(input->tag), .from_rank = input->from.rank};
  if (const std::optional<Handover> output = output_of(compute, rank, action)) {
    step.output = Step::Output{.tag = static_cast<size_t>(output->tag),
                               .delay = output->is_local() ? 0.0 : workload.durations.communication.count()};
  }
  return step;
}

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
    while (kept_ + change > limit_ && run_weight(kWhenever)) {
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
    while (run_weight(kWhenever)) {
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
    traces_[index].is_delayed = run_weight(is_too_long ? kWhenever : now_ + wait / rules_.enough);
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

}  // namespace

Skeleton skeleton_of(const Schedule& compute, const Workload& workload) {
  Skeleton skeleton = {.chunks = static_cast<size_t>(compute.shape.chunks_per_rank),
                       .hand_overs = static_cast<size_t>(handover_count(compute.shape))};
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

}  // namespace braid::schedule
