#include "braid/train/emulate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "braid/base/error.h"
#include "braid/base/median.h"
#include "braid/comm/communicator.h"
#include "braid/comm/pipeline_link.h"
#include "braid/pipeline/emulation.h"
#include "braid/schedule/memory.h"
#include "braid/schedule/simulate.h"
#include "braid/tensor/memory.h"
#include "braid/train/run_plan.h"

namespace braid::train {
namespace {

using schedule::Seconds;
using Clock = pipeline::EmulatedClock::Clock;

/// The most that a rank computes in a step.
Seconds busiest_of(const EmulatedSchedule& emulated) {
  const schedule::Simulation planned = schedule::simulate(emulated.compute, emulated.durations);
  return planned.longest_span * (1.0 - planned.bubble_rate);
}

/// What a rank tells the others of a step; in seconds, but for the last.
enum Column : size_t { kFirst, kLast, kSpan, kInterval, kDelays, kNoise, kMemory, kColumns };

/// The values of all ranks, column by column.
using Step = std::array<std::vector<double>, kColumns>;

Seconds most(const Step& step, Column column) { return Seconds(*std::ranges::max_element(step[column])); }

EmulationResult summary(const EmulatedSchedule& emulated, const std::vector<Step>& steps) {
  EmulationResult result = {.name = emulated.compute.name};
  std::vector<Seconds> step_times, spans, intervals;
  for (const Step& step : steps) {
    step_times.push_back(most(step, kLast) - Seconds(*std::ranges::min_element(step[kFirst])));
    spans.push_back(most(step, kSpan));
    intervals.push_back(most(step, kInterval));
    result.delays =
        std::max(result.delays, Seconds(std::accumulate(step[kDelays].begin(), step[kDelays].end(), 0.0)));
    result.noise = std::max(result.noise, most(step, kNoise));
  }
  result.step_time = median(step_times);
  result.longest_span = median(spans);
  result.interval = median(intervals);
  if (result.longest_span > Seconds(0)) {
    result.bubble_rate = (result.longest_span - busiest_of(emulated)) / result.longest_span;
  }
  result.max_memory_allocated.assign(steps.back()[kMemory].begin(), steps.back()[kMemory].end());
  return result;
}

class Rank {
 public:
  Rank(const EmulationOptions& options, const comm::World& world,
       const c10::intrusive_ptr<c10d::Store>& store, const std::string& gloo_interface,
       const std::vector<EmulatedSchedule>& schedules, pipeline::Observer* observer)
      : options_(options),
        rank_(world.rank),
        observer_(observer),
        group_(comm::group_of_all(world, "pp")),
        backend_(comm::backend_options(world, c10::Device(c10::kCPU), options.timeout, gloo_interface)),
        pipeline_(store, group_, backend_, comm::CallCheck::kOff) {
    if (world.world_size == 1) return;
    std::set<comm::Edge> edges;
    for (const EmulatedSchedule& emulated : schedules) {
      for (const comm::Edge& edge : edges_of(emulated.compute)) edges.insert(edge);
    }
    link_ = std::make_unique<comm::PipelineLink>(
        store, group_,
        comm::PipelineLinkOptions{.backend = backend_,
                                  .formats = {{.dtype = at::kDouble, .numel = options.message_numel}},
                                  .edges = {edges.begin(), edges.end()}});
  }

  EmulationResult run(const EmulatedSchedule& emulated) {
    pipeline::EmulatedClock clock(options_.grace);
    std::vector<pipeline::EmulatedChunk> chunks = make_chunks(emulated, clock);
    std::vector<pipeline::Chunk*> pointers;
    for (pipeline::EmulatedChunk& chunk : chunks) pointers.push_back(&chunk);
    pipeline::Executor executor(
        {.schedule = schedule::lower(emulated.compute, {.receives = options_.receives}),
         .rank = rank_,
         .chunks = pointers,
         .link = link_.get()});
    executor.observe(observer_);
    const std::vector<pipeline::Microbatch> data(static_cast<size_t>(emulated.compute.shape.microbatches));
    tensor::reset_peak_memory_stats();
    std::vector<Step> steps;
    for (int64_t i = 0; i < options_.steps; ++i) {
      pipeline_.barrier().wait();
      const auto begin = Clock::now();
      clock.restart();
      executor.run({.microbatches = data}, {.sequences = 1,
                                            .sequence_tokens = 1,
                                            .hidden = options_.message_numel,
                                            .options = at::TensorOptions(at::kDouble)});
      pipeline_.barrier().wait();
      steps.push_back(gather(clock, Clock::now() - begin));
    }
    return summary(emulated, steps);
  }

  void meet() { pipeline_.barrier().wait(); }

 private:
  std::vector<pipeline::EmulatedChunk> make_chunks(const EmulatedSchedule& emulated,
                                                   pipeline::EmulatedClock& clock) const {
    const schedule::Schedule& compute = emulated.compute;
    std::vector<pipeline::EmulatedChunk> chunks;
    for (int32_t chunk = 0; chunk < compute.shape.chunks_per_rank; ++chunk) {
      const int32_t stage = schedule::stage_of(compute, {.rank = rank_, .chunk = chunk});
      const auto delay_from = [&](int32_t neighbour) {
        const bool is_message = 0 <= neighbour && neighbour < compute.shape.stages() &&
                                schedule::place_of(compute, neighbour).rank != rank_;
        return is_message ? emulated.durations.communication : Seconds(0);
      };
      chunks.emplace_back(clock,
                          pipeline::EmulatedChunk::Options{.times = emulated.durations.of(stage),
                                                           .memory_bytes = emulated.memory_bytes.of(stage),
                                                           .input_delay = delay_from(stage - 1),
                                                           .gradient_delay = delay_from(stage + 1),
                                                           .is_first = stage == 0,
                                                           .is_last = stage == compute.shape.stages() - 1,
                                                           .hand_over_numel = options_.message_numel});
    }
    return chunks;
  }

  /// What this rank's clock says of a step, joined with all others'.
  Step gather(const pipeline::EmulatedClock& clock, Seconds interval) {
    const double end = clock.now().time_since_epoch().count();
    const std::array<double, kColumns> mine = {
        end - clock.span().count(),
        end,
        clock.span().count(),
        interval.count(),
        clock.delays().count(),
        clock.noise().count(),
        static_cast<double>(tensor::memory_stats().max_allocated_bytes)};
    at::Tensor values = at::empty({kColumns}, at::kDouble);
    std::ranges::copy(mine, values.mutable_data_ptr<double>());
    Step step;
    for (const at::Tensor& of_rank : pipeline_.all_gather(values).wait().unbind()) {
      for (size_t i = 0; i < kColumns; ++i) step[i].push_back(of_rank.const_data_ptr<double>()[i]);
    }
    return step;
  }

  const EmulationOptions& options_;
  int32_t rank_;
  pipeline::Observer* observer_;
  comm::Group group_;
  comm::BackendOptions backend_;
  comm::Communicator pipeline_;
  std::unique_ptr<comm::PipelineLink> link_;
};

}  // namespace

std::vector<EmulationResult> emulate(const std::vector<EmulatedSchedule>& schedules,
                                     const EmulationOptions& options, const comm::World& world,
                                     const c10::intrusive_ptr<c10d::Store>& store,
                                     const std::string& gloo_interface, pipeline::Observer* observer) {
  require<ConfigError>(options.steps >= 1, "an emulation needs at least 1 step, got ", options.steps);
  require<ConfigError>(world.local_world_size == world.world_size, "an emulation of ", world.world_size,
                       " ranks needs all of them on one machine, whose clock they share; here are ",
                       world.local_world_size);
  for (const EmulatedSchedule& emulated : schedules) {
    require<ConfigError>(emulated.compute.shape.ranks == world.world_size, "schedule ", emulated.compute.name,
                         " is for ", emulated.compute.shape.ranks, " ranks, but ", world.world_size,
                         " were started");
  }
  Rank rank(options, world, store, gloo_interface, schedules, observer);
  std::vector<EmulationResult> results;
  for (const EmulatedSchedule& emulated : schedules) results.push_back(rank.run(emulated));
  rank.meet();  // nobody leaves while a neighbour still waits for its last message
  return results;
}

}  // namespace braid::train
