#include "braid/config/strategy_keys.h"

namespace braid::config {
namespace {

using K = StrategyKeys;
using Table = OptionTable<StrategyKeys>;

constexpr Range kAtLeastOne{.at_least = 1};

void add_sharding_keys(Table& table) {
  const auto add = [&](const std::string& name, auto field, const OptionInfo& info) {
    table.add(kShardingConfigs + ("." + name), field, info);
  };
  add("sharding_segment_strategy", &K::sharding_segment_strategy,
      {.help = "Where flat buffers of parameters begin: by size or at named layers.",
       .choices = {"segment_broadcast_MB", "segment_anchors"}});
  add("segment_broadcast_MB", &K::segment_broadcast_mb,
      {.help = "Size at which a buffer is closed.", .unit = "MiB", .range = {.above = 0}});
  add("segment_anchors", &K::segment_anchors, {.help = "Layers at which a buffer begins."});
  add("sharding_degree", &K::sharding_degree, {.help = "Ranks of the sharding axis.", .range = kAtLeastOne});
  add("mp_degree", &K::mp_degree, {.help = "Ranks of the mp axis.", .range = kAtLeastOne});
  add("pp_degree", &K::pp_degree, {.help = "Ranks of the pp axis.", .range = kAtLeastOne});
  add("dp_degree", &K::dp_degree, {.help = "Ranks of the dp axis.", .range = kAtLeastOne});
  add("stage", &K::stage, {.help = "ZeRO's stage.", .range = {.at_least = 0, .at_most = 3}});
  add("gradient_merge_acc_step", &K::gradient_merge_acc_step,
      {.help = "Microbatches per step without a pipeline.", .range = kAtLeastOne});
  add("optimize_offload", &K::optimize_offload, {.help = "Keep master weights and moments off the device."});
  add("optimize_cast", &K::optimize_cast,
      {.help = "Keep the 16-bit weights between steps.",
       .no_effect = "16-bit weights are always kept, beside float32 master weights"});
  add("pp_allreduce_in_optimize", &K::pp_allreduce_in_optimize,
      {.help = "Reduce gradients once a step, whatever the stage."});
  add("hybrid_dp", &K::hybrid_dp,
      {.help = "Deprecated.", .no_effect = "it is deprecated; dp_degree > 1 switches data parallelism on"});
}

void add_pipeline_keys(Table& table) {
  const auto add = [&](const std::string& name, auto field, const OptionInfo& info) {
    table.add(kPipelineConfigs + ("." + name), field, info);
  };
  add("schedule_mode", &K::schedule_mode, {.help = "The pipeline schedule."});
  add("micro_batch_size", &K::micro_batch_size, {.help = "Samples per microbatch.", .range = kAtLeastOne});
  add("accumulate_steps", &K::accumulate_steps,
      {.help = "Microbatches per step of a pipeline.", .range = kAtLeastOne});
  add("enable_send_recv_overlap", &K::enable_send_recv_overlap, {.help = "Post receives early."});
  add("p2p_cache_shape", &K::p2p_cache_shape,
      {.help = "Send the shapes of messages once.",
       .no_effect = "all ranks know the shapes of messages beforehand and never send them"});
  add("enable_partial_send_recv", &K::enable_partial_send_recv,
      {.help = "Send a part of an activation from each mp rank.",
       .no_effect = "each mp rank sends to its own neighbour what that one needs, without a gather"});
}

}  // namespace

Table strategy_key_table() {
  Table table({.command = "strategy", .usage = "", .summary = ""});
  table.add("sharding", &K::sharding, {.help = "Switches sharding on."});
  table.add("pipeline", &K::pipeline, {.help = "Switches the pipeline on."});
  add_sharding_keys(table);
  add_pipeline_keys(table);
  return table;
}

}  // namespace braid::config
