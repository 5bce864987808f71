// The messages of one training step, held against the plan: kind, count and bytes of every edge and axis.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/pipeline/executor.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/schedule/generators/generate.h"
#include "braid/tensor/memory.h"
#include "braid/train/pipeline_plan.h"
#include "braid/train/run_case_test_support.h"
#include "braid/train/training_step.h"

namespace braid::train {
namespace {

constexpr int64_t kSequences = 2, kTokens = 12;

void run_rank(const PipelinePlan& plan, const config::ModelConfig& config, at::ScalarType dtype,
              const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
  const at::TensorOptions options(dtype);
  const RankModel model = make_rank_model(plan.layers_of_rank(world.rank), {}, options);
  model::initialise(model.parameters(), {.seed = 1});
  const comm::Group group = comm::group_of_all(world, "pp");
  const comm::BackendOptions backend =
      comm::backend_options(world, c10::Device(c10::kCPU), std::chrono::seconds(60), "");
  comm::Communicator pipeline(store, group, backend);
  const cost::MicrobatchShape microbatch = {.sequences = kSequences,
                                            .sequence_tokens = kTokens,
                                            .element_bytes = static_cast<int64_t>(c10::elementSize(dtype)),
                                            .wide_element_bytes = 4};
  std::unique_ptr<comm::PipelineLink> link;
  if (world.world_size > 1) {
    comm::PipelineLinkOptions wanted = {
        .backend = backend,
        .formats = {{.dtype = dtype, .numel = microbatch.tokens() * config.hidden_size}},
        .edges = edges_of(plan.compute)};
    if (plan.tied) wanted.formats.push_back({.dtype = at::kFloat, .numel = plan.tied->numel()});
    if (plan.tied && plan.tied->first_rank != plan.tied->last_rank) {
      std::set<comm::Edge> edges(wanted.edges.begin(), wanted.edges.end());
      edges.insert({plan.tied->first_rank, plan.tied->last_rank});
      edges.insert({plan.tied->last_rank, plan.tied->first_rank});
      wanted.edges.assign(edges.begin(), edges.end());
    }
    link = std::make_unique<comm::PipelineLink>(store, group, wanted);
  }
  std::vector<pipeline::LayerChunk> chunks;
  std::vector<optim::AdamW> optimizers;
  for (const StageModel& stage : model.stages) {
    chunks.emplace_back(stage.layers);
    optimizers.emplace_back(stage.segments, optim::make_memory_store(), optim::AdamWOptions{});
  }
  std::vector<pipeline::Chunk*> pointers;
  for (pipeline::LayerChunk& chunk : chunks) pointers.push_back(&chunk);
  TiedWeight tied(model, plan, world.rank, link.get());
  TrainingStep step(plan, model, tied, optimizers, pipeline, {});
  pipeline::Executor executor({.schedule = plan.step,
                               .rank = world.rank,
                               .chunks = pointers,
                               .link = link.get(),
                               .step_end = &step.step_end()});
  const at::Tensor tokens = at::ones({kSequences, kTokens}, at::kLong);
  const std::vector<pipeline::Microbatch> microbatches(static_cast<size_t>(plan.compute.shape.microbatches),
                                                       {.tokens = tokens, .labels = tokens});
  const comm::CollectiveTraffic before = pipeline.traffic();
  step.run(
      executor, 1, microbatches,
      {.sequences = kSequences, .sequence_tokens = kTokens, .hidden = config.hidden_size, .options = options},
      false);
  if (link) {
    EXPECT_EQ(link->traffic(), step_messages(plan, world.rank, microbatch, config.hidden_size));
  }
  const int64_t gathered = (world.world_size - 1) * step_exchange_numel(plan) * 8;
  EXPECT_EQ(pipeline.traffic() - before,
            (comm::CollectiveTraffic{{{comm::Collective::kAllGather, {1, gathered}}}}))
      << "one all-gather is the step's only collective";
  pipeline.barrier().wait();
}

class StepMessages : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(StepMessages, AreThoseOfThePlanForEverySchedule) {
  tensor::install_cpu_allocator();
  const auto [pp, tied] = GetParam();
  const config::ModelConfig config = tiny_model(tied);
  int schedules = 0;
  for (const schedule::Mode& mode : schedule::modes()) {
    for (const int64_t chunks : {1, 2}) {
      if (mode.chunks && *mode.chunks != chunks) continue;
      config::PretrainOptions options;
      options.bf16 = schedules % 2 == 1;
      options.max_seq_length = kTokens;
      options.per_device_train_batch_size = kSequences;
      options.gradient_accumulation_steps = 2 * pp;
      options.pipeline_parallel_degree = pp;
      options.virtual_pp_degree = chunks;
      options.pipeline_schedule_mode = std::string(mode.name);
      options.schedule_times = "1,1.2,0.8,0.1";
      options.max_grad_norm = schedules % 3 == 0 ? 0.0 : 1.0;
      const PipelinePlan plan = make_plan(options, model::llama_layers(config), {});
      SCOPED_TRACE(::testing::Message() << plan.compute.name << ", " << chunks << " chunks");
      ++schedules;
      comm::run_ranks(pp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        run_rank(plan, config, options.bf16 ? at::kBFloat16 : at::kFloat, world, store);
      });
    }
  }
  EXPECT_GE(schedules, 13);
}

INSTANTIATE_TEST_SUITE_P(Pipelines, StepMessages,
                         ::testing::Combine(::testing::Range(1, 5), ::testing::Bool()));

}  // namespace
}  // namespace braid::train
