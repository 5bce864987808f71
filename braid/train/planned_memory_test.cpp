// What a rank holds after every action of a step, held against the plan: layers' records by their own count,
// and all live tensors by the allocator's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"
#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/pipeline/executor.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/memory.h"
#include "braid/tensor/memory.h"
#include "braid/train/pipeline_plan.h"
#include "braid/train/rank_model.h"

namespace braid::train {
namespace {

using schedule::Action;
using schedule::Op;

// Sizes of which every tensor is a multiple of the allocator's unit: counts are then equal to the byte.
constexpr int64_t kTokens = 16;
constexpr int64_t kSequences = 2;
const config::ModelConfig kModel = {.vocab_size = 64,
                                    .hidden_size = 32,
                                    .intermediate_size = 48,
                                    .num_hidden_layers = 9,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .max_position_embeddings = 16};

/// Bytes of tensors on their way between stages after each action: received and not used yet, made and not
/// yet known to be sent.
class Travelling {
 public:
  Travelling(const schedule::Schedule& schedule, int32_t rank, int64_t message_bytes)
      : schedule_(schedule), rank_(rank), message_bytes_(message_bytes) {}

  void follow(const Action& action) {
    const bool is_end_of_send = is_wait_send(action.op);
    if (is_receive(action.op)) ++tensors_;
    if (is_end_of_send) --tensors_;
    if (schedule::input_of(schedule_, rank_, action)) --tensors_;
    if (schedule::output_of(schedule_, rank_, action)) ++tensors_;
  }

  int64_t bytes() const { return tensors_ * message_bytes_; }

 private:
  const schedule::Schedule& schedule_;
  int32_t rank_;
  int64_t message_bytes_;
  int64_t tensors_ = 0;
};

/// Holds what the rank has against the plan after every action.
class MemoryWitness final : public pipeline::Observer {
 public:
  MemoryWitness(const PipelinePlan& plan, int32_t rank, const std::vector<pipeline::Chunk*>& chunks,
                int64_t message_bytes)
      : plan_(plan),
        rank_(rank),
        chunks_(chunks),
        travelling_(plan.step, rank, message_bytes),
        before_(tensor::memory_stats().allocated_bytes) {}

  void after(const Action& action, const pipeline::ActionTimes& /*times*/) override {
    planned_ += schedule::memory_change(plan_.compute, plan_.memory_bytes, rank_, action);
    travelling_.follow(action);
    int64_t kept = 0;
    for (const pipeline::Chunk* chunk : chunks_) kept += chunk->saved_bytes();
    ASSERT_EQ(kept, planned_) << "after " << to_string(action) << " of rank " << rank_;
    // The embedding keeps the step's own tokens: no new tensor.
    const bool is_embedding = action.chunk == 0 && plan_.first_rank() == rank_;
    constexpr int64_t kTokenBytes = 8;
    if (is_embedding && action.op == Op::kForward) tokens_ += kSequences * kTokens * kTokenBytes;
    if (is_embedding && is_weight_gradient(action.op)) tokens_ -= kSequences * kTokens * kTokenBytes;
    ASSERT_EQ(tensor::memory_stats().allocated_bytes - before_, planned_ - tokens_ + travelling_.bytes())
        << "after " << to_string(action) << " of rank " << rank_;
    peak_ = std::max(peak_, planned_);
  }

  int64_t peak() const { return peak_; }

 private:
  const PipelinePlan& plan_;
  int32_t rank_;
  const std::vector<pipeline::Chunk*>& chunks_;
  Travelling travelling_;
  int64_t before_;
  int64_t planned_ = 0;
  int64_t tokens_ = 0;
  int64_t peak_ = 0;
};

void run_rank(const PipelinePlan& plan, const config::PretrainOptions& options, const comm::World& world,
              const c10::intrusive_ptr<c10d::Store>& store) {
  const tensor::ArenaScope memory_of_this_rank;
  const auto dtype = options.bf16 ? at::kBFloat16 : at::kFloat;
  const RankModel model = make_rank_model(plan.layers_of_rank(world.rank), {}, at::TensorOptions(dtype));
  model::initialise(model.parameters(), {.seed = 1});
  const comm::Group group = comm::group_of_all(world, "pp");
  const comm::BackendOptions backend =
      comm::backend_options(world, c10::Device(c10::kCPU), std::chrono::seconds(30), "");
  comm::Communicator all(store, group, backend);
  std::unique_ptr<comm::PipelineLink> link;
  const pipeline::ActivationSpec activation = {.sequences = kSequences,
                                               .sequence_tokens = kTokens,
                                               .hidden = kModel.hidden_size,
                                               .options = at::TensorOptions(dtype)};
  const int64_t numel = kSequences * kTokens * kModel.hidden_size;
  if (world.world_size > 1) {
    link = std::make_unique<comm::PipelineLink>(
        store, group,
        comm::PipelineLinkOptions{.backend = backend,
                                  .formats = {{.dtype = dtype, .numel = numel}},
                                  .edges = edges_of(plan.compute)});
  }
  std::vector<pipeline::LayerChunk> chunks;
  for (const StageModel& stage : model.stages) chunks.emplace_back(stage.layers);
  std::vector<pipeline::Chunk*> pointers;
  for (pipeline::LayerChunk& chunk : chunks) pointers.push_back(&chunk);
  std::vector<pipeline::Microbatch> microbatches;
  for (int64_t i = 0; i < options.gradient_accumulation_steps; ++i) {
    const at::Tensor tokens = at::full({kSequences, kTokens}, i, at::kLong);
    microbatches.push_back({.tokens = tokens, .labels = tokens});
  }
  pipeline::Executor executor(
      {.schedule = plan.step, .rank = world.rank, .chunks = pointers, .link = link.get()});
  MemoryWitness witness(plan, world.rank, pointers, numel * static_cast<int64_t>(c10::elementSize(dtype)));
  executor.observe(&witness);
  executor.run({.microbatches = microbatches, .gradient_scale = 1.0}, activation);
  EXPECT_EQ(witness.peak(),
            schedule::peak_memory(plan.compute, plan.memory_bytes)[static_cast<size_t>(world.rank)]);
  all.barrier().wait();
}

class PlannedMemory : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(PlannedMemory, IsHeldToTheByteAfterEveryActionOfEverySchedule) {
  tensor::install_cpu_allocator();
  const auto [pp, bf16] = GetParam();
  int schedules = 0;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int64_t chunks : {1, 2}) {
      config::PretrainOptions options;
      options.bf16 = bf16;
      options.max_seq_length = kTokens;
      options.per_device_train_batch_size = kSequences;
      options.gradient_accumulation_steps = 8;
      options.pipeline_parallel_degree = pp;
      options.virtual_pp_degree = chunks;
      options.pipeline_schedule_mode = std::string(mode.name);
      options.enable_send_recv_overlap = schedules % 2 == 0;
      options.schedule_times = "1,1.2,0.8,0.1";
      if (mode.chunks && *mode.chunks != chunks) continue;
      const PipelinePlan plan = make_plan(options, model::llama_layers(kModel), {});
      SCOPED_TRACE(::testing::Message() << plan.compute.name << ", " << chunks << " chunks");
      ++schedules;
      comm::run_ranks(pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        run_rank(plan, options, world, store);
      });
    }
  }
  EXPECT_GE(schedules, 13);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, PlannedMemory,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
