// A schedule: what every pipeline rank does in one step, in order, as plain data.
// Generators make it, passes extend it, check proves it, simulate times it, the executor walks one rank's
// list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/schedule/action.h"

namespace braid::schedule {

/// What is to be scheduled. The model is cut into ranks * chunks_per_rank stages.
struct PipelineShape {
  int32_t ranks = 1;
  int32_t chunks_per_rank = 1;
  int32_t microbatches = 1;

  int32_t stages() const { return ranks * chunks_per_rank; }

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Which rank holds which stage.
enum class Placement {
  kLooped,  // stage s is chunk s / ranks of rank s % ranks
  kV,       // the same for even chunks; odd chunks run back from the last rank to the first
  kTable,   // any other: see StageTable
};

/// The place of a stage.
struct Place {
  int32_t rank = 0;
  int32_t chunk = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

/// A placement as tables in both directions.
struct StageTable {
  std::vector<Place> places;    // of each stage
  std::vector<int32_t> stages;  // at [rank * chunks_per_rank + chunk]

  friend bool operator==(const StageTable&, const StageTable&) = default;
};

/// Two stages that hold the same weight, whose gradients are added at the end of a step. The weight counts in
/// the gradient norm with the first of them. They may be the same stage.
struct TiedStages {
  int32_t first = 0;
  int32_t last = 0;
  /// The last stage computes its gradient of the weight in F, as a head that includes the loss may, so that
  /// it is complete before W. Used if the stages are on two ranks.
  bool last_made_in_forward = false;

  friend bool operator==(const TiedStages&, const TiedStages&) = default;
};

/// The purpose of the gradient norm of all ranks.
enum class NormUse : uint8_t {
  kScalesUpdate,  // clipping: every update waits for it
  kReportedOnly,  // no update waits for it; it arrives during the next step
};

/// How a step turns its gradients into new weights.
struct StepEnd {
  std::vector<TiedStages> tied{};  // each stage at most once
  NormUse norm_use = NormUse::kScalesUpdate;

  friend bool operator==(const StepEnd&, const StepEnd&) = default;
};

/// What data ranks do together: those that run the same schedule on different microbatches, along the axes
/// sharding and dp. The layers of each stage are cut into segments, groups of neighbouring layers, whose
/// values or gradients are moved together. Source of the stages: Rajbhandari et al. 2020, ZeRO,
/// arXiv:1910.02054.
struct DataAxes {
  bool has_sharding = false;  // more than one rank on that axis
  bool has_dp = false;
  // Of what a rank has only its part: 0 nothing, 1 optimizer states, 2 gradients too, 3 values too.
  int32_t sharding_stage = 1;
  bool reduces_each_microbatch = false;  // over the sharding axis; otherwise once a step
  std::vector<int32_t> segments{};       // the number of them in each stage; empty where both axes are off

  bool is_on() const { return has_sharding || has_dp; }
  bool gathers_before_use() const { return has_sharding && sharding_stage == 3; }
  bool gathers_after_update() const { return has_sharding && (sharding_stage == 1 || sharding_stage == 2); }

  friend bool operator==(const DataAxes&, const DataAxes&) = default;
};

struct Schedule {
  std::string name;
  PipelineShape shape;
  Placement placement = Placement::kLooped;
  StageTable table{};  // empty unless placement is kTable
  StepEnd step_end{};
  DataAxes data{};
  std::vector<std::vector<Action>> ranks{};  // one ordered list per rank

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// What one stage passes to a neighbour.
enum class Payload : uint8_t {
  kActivation,  // the output of a forward, to the next stage
  kGradient,    // the gradient of a stage's input, to the stage before
};

/// One tensor passed from a stage to its neighbour: a message, unless both stages are on one rank.
struct Handover {
  Payload payload = Payload::kActivation;
  Place from;
  Place to;
  int32_t microbatch = 0;
  /// Different for every handover of a step; in [0, handover_count()). Both ends compute the same one.
  int64_t tag = 0;

  bool is_local() const { return from.rank == to.rank; }

  friend bool operator==(const Handover&, const Handover&) = default;
};

/// Puts `schedule`'s stages where `rank_of_stage` says, each rank's in ascending order on its chunks; with
/// the plain name of the placement if it has one. Throws ConfigError unless every rank gets chunks_per_rank
/// stages.
void place_stages(Schedule& schedule, const std::vector<int32_t>& rank_of_stage);

/// Throws ConfigError unless every number is at least 1 and their product at most 2^28.
void validate(const PipelineShape& shape);

/// Throws ConfigError unless the shape is valid, there is one list per rank, every action's op, chunk,
/// microbatch and segment exist, and the stages of step_end exist and are tied at most once. This is all that
/// the functions below and simulate need to stay within bounds; check proves the rest.
void validate(const Schedule& schedule);

/// The place of `stage`, and the stage at a place. Not checked: stage in [0, stages()), place within the
/// shape.
Place place_of(const Schedule& schedule, int32_t stage);
int32_t stage_of(const Schedule& schedule, Place place);

/// How many segments a stage has; 1 where there are no data axes.
int32_t segments_of(const Schedule& schedule, int32_t stage);

/// Whether a compute action or UPDATE works on the first or the last segment of its chunk.
bool includes_first_segment(const Action& action);
bool includes_last_segment(const Schedule& schedule, int32_t rank, const Action& action);

/// The upper end of the handovers' tags: 2 * stages * microbatches.
int64_t handover_count(const PipelineShape& shape);

/// The tensor that a compute action of `rank` takes from another stage; nothing for W, at the pipeline's
/// ends, and within a chunk, from one segment to the next.
std::optional<Handover> input_of(const Schedule& schedule, int32_t rank, const Action& action);

/// The tensor that a compute action of `rank` produces for another stage; nothing where input_of has nothing.
std::optional<Handover> output_of(const Schedule& schedule, int32_t rank, const Action& action);

/// The message that a send, receive or wait of `rank` is about; nothing if there is no stage on the other
/// side.
std::optional<Handover> message_of(const Schedule& schedule, int32_t rank, const Action& action);

/// The actions of a message's two ends.
Action send_action(const Handover& message);
Action receive_action(const Handover& message);
Action wait_action(const Handover& message);

/// Whether any rank has an action with `op`.
bool uses(const Schedule& schedule, Op op);

/// How many actions of all ranks have a W in hand.
int64_t count_weights_in_hand(const Schedule& schedule);

/// Whether it contains sends or receives: then a stage's output leaves its rank only through them.
bool has_messages(const Schedule& schedule);

/// What one rank does for two tied stages, of which it holds one or both.
struct TiedReduction {
  int32_t chunk = 0;  // of the rank's REDUCE_TIED and its wait
  Place other;        // of the other stage; if that is on this rank too, it has no actions of its own
  bool counts_in_norm = false;   // the rank holds the first stage, so its norm needs the sum
  bool made_in_forward = false;  // the chunk's forwards complete its gradient of the weight

  friend bool operator==(const TiedReduction&, const TiedReduction&) = default;
};

/// Those of `rank`, in the order of step_end.tied. Not checked: the stages exist.
std::vector<TiedReduction> tied_reductions(const Schedule& schedule, int32_t rank);

/// Whether any rank's list has an action that ends the step.
bool has_step_end(const Schedule& schedule);

/// The name, then one line per rank: "rank 0: F0 F1 B0 B1".
std::string to_string(const Schedule& schedule);

/// "rank 2, position 7 (B3)", for error messages; positions count from 0, and one past the end is "the end".
std::string location(const Schedule& schedule, int32_t rank, size_t position);

/// Throws ConfigError that begins with the location unless `condition`.
template <typename... Parts>
void require_at(bool condition, const Schedule& schedule, int32_t rank, size_t position,
                const Parts&... parts) {
  if (!condition) throw ConfigError(cat(location(schedule, rank, position), ": ", parts...));
}

}  // namespace braid::schedule
