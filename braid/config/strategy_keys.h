// The keys of a strategy file as a struct and its option table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "braid/config/option_table.h"

namespace braid::config {

/// Defaults are those of Paddle's distributed_strategy.proto.
struct StrategyKeys {
  bool sharding = false;
  bool pipeline = false;

  // sharding_configs
  std::string sharding_segment_strategy = "segment_broadcast_MB";
  double segment_broadcast_mb = 32;
  std::vector<std::string> segment_anchors;
  int64_t sharding_degree = 8;
  int64_t mp_degree = 1;
  int64_t pp_degree = 1;
  int64_t dp_degree = 1;
  int64_t stage = 1;
  int64_t gradient_merge_acc_step = 1;
  bool optimize_offload = false;
  bool optimize_cast = false;
  bool pp_allreduce_in_optimize = false;
  bool hybrid_dp = false;

  // pipeline_configs
  std::string schedule_mode = "1F1B";
  int64_t micro_batch_size = 1;
  int64_t accumulate_steps = 1;
  bool enable_send_recv_overlap = false;
  bool p2p_cache_shape = true;
  bool enable_partial_send_recv = true;

  bool operator==(const StrategyKeys&) const = default;
};

/// The maps of a strategy file; names of their keys begin with the map's and a dot.
inline constexpr const char* kShardingConfigs = "sharding_configs";
inline constexpr const char* kPipelineConfigs = "pipeline_configs";

OptionTable<StrategyKeys> strategy_key_table();

}  // namespace braid::config
