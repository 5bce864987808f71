// Trains and evaluates a model of any layers on one rank: plans, connects, builds, then runs steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/optim/adamw.h"
#include "braid/pipeline/executor.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/train/connect.h"
#include "braid/train/partial_sums.h"
#include "braid/train/rank_model.h"
#include "braid/train/run_plan.h"
#include "braid/train/segment_mover.h"
#include "braid/train/tied_weight.h"
#include "braid/train/training_step.h"

namespace braid::train {

/// The result of an evaluation, known to every rank.
struct Evaluation {
  double loss = 0;     ///< mean over the tokens
  int64_t tokens = 0;  ///< that carried a loss
};

/// Before a trainer is destroyed all ranks should meet (world().barrier().wait()), so that no process ends
/// while another still waits for its last message.
class Trainer {
 public:
  struct Options {
    config::Strategy strategy;
    config::TrainingOptions training;
    layers::ModelSpec model;
    RankPlace place;

    /// Gives this rank's parameters their first values; called while the trainer is made, with those of one
    /// segment at a time. Empty: all bring their own, as AutogradLayer's do.
    tensor::FillValues initialise = {};

    /// A microbatch as in training, on which layers are timed; called only where needs_times says so.
    std::function<pipeline::Microbatch()> sample = {};
  };

  /// Makes the plan, for which it may have to measure (measure_parts), connects the ranks, makes this rank's
  /// layers and initialises them, and makes the optimizer's states unless max_steps is 0. Collective over the
  /// world; one trainer per store (give a second one a c10d::PrefixStore). Throws as make_run_plan,
  /// groups_of, Communicator and connect_link, and ConfigError if the ranks' plans or training options
  /// differ, a parameter is left without values, or the two ends of a tied weight begin with different ones.
  explicit Trainer(Options options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  const RunPlan& plan() const { return plan_; }

  const mesh::Coordinates& coordinates() const { return groups_.coordinates; }
  /// This rank's index in the pipeline.
  int32_t rank() const { return groups_.coordinates.pp; }
  /// The number of this rank among those that train on microbatches of their own, plan().data_ranks() of
  /// them.
  int64_t data_rank() const;

  /// All ranks.
  comm::Communicator& world() { return world_; }
  comm::Communicator* mp() { return mp_.get(); }  ///< this rank's mp group; null if it is alone in it
  /// What this rank has sent over an axis since it connected.
  comm::CollectiveTraffic traffic(mesh::Axis axis) const;
  const comm::PipelineLink* link() const { return link_.get(); }  ///< null in a pipeline of one rank

  /// Bytes that this rank keeps now for backward passes.
  int64_t kept_bytes() const;

  /// This rank's parameters; of a weight that two layers use, the first layer's only. With sharding stage 3
  /// they have values only between gather_values and release_values.
  std::vector<tensor::Parameter*> parameters() const;

  /// Makes all values of this rank's parameters available until release_values. Collective over the sharding
  /// axis.
  void gather_values();
  void release_values();

  /// One optimizer step, whose number counts from 1, as TrainingStep::run: without clipping (max_grad_norm 0)
  /// the outcome is that of the step before, so the first call returns nothing. `microbatches`, this data
  /// rank's, are as many as the training options say; this rank reads tokens if it holds the first stage and
  /// labels if it holds the last, and the others may be undefined. Throws ConfigError for microbatches of
  /// another number or shape, or if max_steps is 0. After a step that threw, the trainer cannot be used
  /// again.
  std::optional<StepOutcome> step(std::span<const pipeline::Microbatch> microbatches);

  /// The outcome of the last step, if it is not known yet. Collective over the world.
  std::optional<StepOutcome> finish();

  /// Makes the outcome of the next step report on all ranks that a stop was requested.
  void request_stop() { stop_requested_ = true; }

  /// The mean loss of `microbatches`, each data rank's own, any number, but the same on all ranks, each of
  /// evaluation_sequences sequences. Collective over the world. Throws ConfigError if evaluation_sequences is
  /// 0 or a microbatch has another shape.
  Evaluation evaluate(std::span<const pipeline::Microbatch> microbatches);

  /// Called for every action of the steps that follow, or null. It must outlive them.
  void observe(pipeline::Observer* observer);

 private:
  /// What only training needs.
  struct Training {
    explicit Training(Trainer& trainer);
    std::vector<optim::AdamW> optimizers;
    PartialSums partial_sums;
    TrainingStep step;
    pipeline::Executor executor;
  };

  RunPlan make_plan();
  RankModel build_model();
  std::unique_ptr<comm::Communicator> connect(const comm::Group& group) const;
  std::unique_ptr<comm::Communicator> connect_copies() const;
  layers::Placement placement() const;
  std::unique_ptr<optim::StateStore> make_state_store(const StageModel& stage) const;
  pipeline::Executor make_executor(schedule::Schedule schedule, pipeline::StepEnd* step_end);
  pipeline::ActivationSpec activation(int64_t sequences) const;
  /// What this rank reads of the microbatches, checked, on its device.
  std::vector<pipeline::Microbatch> on_device(std::span<const pipeline::Microbatch> microbatches,
                                              int64_t sequences) const;
  void require_same_on_all_ranks(const RunPlan& plan);
  void require_same_tied_values();
  void require_usable() const;

  Options options_;
  RankGroups groups_;
  comm::Communicator world_;
  std::unique_ptr<comm::Communicator> mp_;  // null where the axis has one rank
  RunPlan plan_;
  std::unique_ptr<comm::Communicator> sharding_;  // null where the axis has one rank
  std::unique_ptr<comm::Communicator> copies_;    // of mp ranks that hold the same key-value heads; or null
  std::unique_ptr<comm::Communicator> dp_;
  std::unique_ptr<comm::PipelineLink> link_;
  RankModel model_;
  std::vector<pipeline::LayerChunk> chunks_;
  std::unique_ptr<SegmentMover> mover_;  // null where there are no data axes
  TiedWeight tied_;
  std::unique_ptr<Training> training_;
  int64_t steps_ = 0;
  bool stop_requested_ = false;
  bool is_running_ = false;  // in a step or an evaluation; stays true if that threw
};

}  // namespace braid::train
