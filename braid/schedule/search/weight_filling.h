// One way to run a schedule's weight gradients between its other actions; place_weights tries many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "braid/schedule/schedule.h"
#include "braid/schedule/search/cost.h"
#include "braid/schedule/workload.h"

namespace braid::schedule {

/// F or I, with everything needed to time it.
struct Step {
  /// Its input from another step.
  struct Input {
    size_t tag = 0;
    int32_t from_rank = 0;
  };
  /// Its output for another step.
  struct Output {
    size_t tag = 0;
    double delay = 0;  ///< in seconds, from its end until it can be used
  };

  Action action;
  std::optional<Input> input{};
  std::optional<Output> output{};
  double time = 0;          ///< in seconds
  double weight_time = 0;   ///< that of its W
  int64_t kept = 0;         ///< M_B
  int64_t weight_kept = 0;  ///< M_W

  bool is_forward() const { return action.op == Op::kForward; }
};

/// A schedule without its weight gradients.
struct Skeleton {
  std::vector<std::vector<Step>> ranks{};
  std::vector<double> busy{};  ///< per rank, seconds of computing with the weight gradients
  double busiest = 0;          ///< the highest of those
  size_t chunks = 1;
  size_t hand_overs = 0;
};

/// The forwards of `compute`, and an I for each of its I and B. Not checked: `compute` passes check, and the
/// workload suits it.
Skeleton skeleton_of(const Schedule& compute, const Workload& workload);

/// Rules::target that leaves every wait as it is.
inline constexpr double kNoTarget = std::numeric_limits<double>::infinity();

/// How one rank uses a wait that is too short for a whole W.
struct Rules {
  /// Seconds of span above which the rank would rather be late: if the wait would make it longer, W comes
  /// first. 0 fills every wait.
  double target = 0.0;
  /// The part of a W that a wait must have room for to be filled whatever the target.
  double enough = 1.0;
  std::vector<char> held{};  ///< per step: no W that delays it
};

/// What is known of a step after it has run.
struct Trace {
  bool is_bound = false;    ///< it started when its input came
  bool is_delayed = false;  ///< by a W that did not fit into its wait
};

/// A skeleton with its weight gradients.
struct Filling {
  Cost cost;
  double longest_span = 0;  ///< in seconds
  size_t longest_rank = 0;
  std::vector<std::vector<Action>> ranks{};
  std::vector<std::vector<Trace>> traces{};
};

/// Runs all ranks of `skeleton` together, each as place_weights says with its own of `rules`. Nothing if a
/// rank would keep more than `limit`, or if the order of the steps gets stuck.
std::optional<Filling> fill(const Skeleton& skeleton, int64_t limit, const std::vector<Rules>& rules);

}  // namespace braid::schedule
