// The option table of `braid pretrain`, second half: how and where it runs, and what it leaves behind.
#include "braid/config/pretrain_table_parts.h"
#include "braid/schedule/generators/generate.h"

namespace braid::config {
namespace {

using Table = OptionTable<PretrainOptions>;
using P = PretrainOptions;

constexpr Range kAtLeastOne{.at_least = 1};
constexpr Range kNotNegative{.at_least = 0};
constexpr Range kPositive{.above = 0};
constexpr Range kDegree{.at_least = 1, .also = -1};

void add_pipeline(Table& table) {
  table.add("pipeline_parallel_degree", &P::pipeline_parallel_degree,
            {.help = "Stages, one rank each, that the layers are spread over; -1: one.", .range = kDegree});
  table.add("pipeline_schedule_mode", &P::pipeline_schedule_mode,
            {.help = "What each rank does in which order: " + schedule::mode_names() +
                     "; or csv:FILE, a schedule in the CSV format of PyTorch's pipelining."});
  table.add("enable_send_recv_overlap", &P::enable_send_recv_overlap,
            {.help = "Post receives early, so that messages travel while the rank computes."});
  table.add(
      "pipeline_parallel_config", &P::pipeline_parallel_config,
      {.help =
           "Space-separated words; of PaddleNLP's, enable_send_recv_overlap is carried out (as the option of "
           "that "
           "name), disable_p2p_cache_shape, disable_partial_send_recv and disable_batch_p2p_comm name what "
           "is always so."});
  table.add("virtual_pp_degree", &P::virtual_pp_degree,
            {.help = "Chunks of layers a rank, for VPP and InterleavedZB; schedules that always have two "
                     "(ZBVPP, V-Half, V-Min, DualPipeV) may leave it at 1.",
             .range = {.at_least = 1, .at_most = 1024}});
  table.add(
      "schedule_times", &P::schedule_times,
      {.help = "What a rank's whole part of the model takes for F, I (input gradient) and W (weight "
               "gradient) of a microbatch, and what a message takes, in any unit, with commas between: "
               "F,I,W or F,I,W,MESSAGE; or file:PATH, times of each stage as --profile_steps writes them. "
               "For schedules that arrange for times (ZBVPP, V-Half, V-Min, "
               "auto). Unset: measured at the start."});
  table.add(
      "schedule_memory_limit", &P::schedule_memory_limit,
      {.help = "The most that any rank may keep of its microbatches between their forward and their "
               "weight gradients. auto and ZBVPP keep to it; other schedules are refused if they exceed "
               "it. Unset: no limit.",
       .unit = "bytes",
       .range = kAtLeastOne});
  table.add(
      "segment_broadcast_mb", &P::segment_broadcast_mb,
      {.help =
           "A stage's parameters lie in flat buffers, each of whole layers and closed once its weights reach "
           "this size. No number of the run depends on it.",
       .unit = "MiB",
       .range = kPositive,
       .aliases = {"segment_broadcast_MB"}});
  table.add(
      "segment_anchors", &P::segment_anchors,
      {.help = "Layers, by name and with spaces between (as model.layers.4.self_attn), at which a new buffer "
               "begins; then segment_broadcast_mb does not matter."});
  table.add("virtual_pipeline_seg_method", &P::virtual_pipeline_seg_method,
            {.help = "Class of layers counted when cutting.",
             .no_effect = "decoder layers are cut by their cost, embedding and head counted"});
}

void add_strands_to_come(Table& table) {
  table.add("tensor_parallel_degree", &P::tensor_parallel_degree,
            {.help = "Ranks that share each layer; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "tensor parallelism"});
  table.add("tensor_parallel_config", &P::tensor_parallel_config,
            {.help = "Settings of tensor parallelism.", .supported = {""}, .missing = "tensor parallelism"});
  table.add("sequence_parallel", &P::sequence_parallel,
            {.help = "Split norms along the sequence.",
             .supported = {"false"},
             .missing = "sequence parallelism (it needs tensor parallelism)"});
  table.add("sharding", &P::sharding,
            {.help = "ZeRO stage.",
             .choices = {"", "stage1", "stage2", "stage3", "stage2 offload", "stage3 offload"},
             .supported = {"", "stage1"},
             .missing = "sharding stages 2 and 3 and no offload",
             .no_effect = "there is one data rank, so nothing is to be sharded"});
  table.add("sharding_parallel_degree", &P::sharding_parallel_degree,
            {.help = "Ranks that share optimizer states; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "sharding"});
  table.add("sharding_parallel_config", &P::sharding_parallel_config,
            {.help = "Settings of sharding.", .supported = {""}, .missing = "sharding"});
  table.add("sep_parallel_degree", &P::sep_parallel_degree,
            {.help = "Ranks that share a sequence by heads; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "segment parallelism"});
  table.add("context_parallel_degree", &P::context_parallel_degree,
            {.help = "Ranks that share a sequence in a ring; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "context parallelism"});
  table.add("hybrid_parallel_topo_order", &P::hybrid_parallel_topo_order,
            {.help = "Nesting of the axes, outer to inner: pp_first is dp, pp, sharding, mp.",
             .choices = {"pp_first", "sharding_first"},
             .supported = {"pp_first"},
             .missing = "other order of ranks"});
  table.add("enable_auto_parallel", &P::enable_auto_parallel,
            {.help = "PaddleNLP's choice between two engines.", .no_effect = "braid has one engine"});
}

void add_recompute(Table& table) {
  const std::string unused = "it is used with recompute only, which this version lacks";
  table.add("recompute", &P::recompute,
            {.help = "Compute activations again in the backward pass instead of keeping them.",
             .supported = {"false"},
             .missing = "recomputation"});
  table.add("recompute_granularity", &P::recompute_granularity,
            {.help = "What is computed again.",
             .choices = {"full", "full_attn", "core_attn"},
             .no_effect = unused});
  table.add("refined_recompute", &P::refined_recompute,
            {.help = "Operators left out of recomputation.", .supported = {""}, .missing = "recomputation"});
  table.add("no_recompute_layers", &P::no_recompute_layers,
            {.help = "Layers left out of recomputation.", .range = kNotNegative, .no_effect = unused});
  table.add("pp_recompute_interval", &P::pp_recompute_interval,
            {.help = "Layers recomputed together.", .range = kNotNegative, .no_effect = unused});
}

void add_checkpoints(Table& table) {
  const std::string checkpoints = "checkpoints (the finished model is written to <output_dir>/hf)";
  table.add(
      "save_steps", &P::save_steps,
      {.help = "Steps between checkpoints. A value above max_steps is taken, because none is due then; so is "
               "any value "
               "with save_strategy no. PaddleNLP's default is 500.",
       .unit = "steps",
       .range = kAtLeastOne,
       .no_effect = "no checkpoint is due in this run; the finished model is written to <output_dir>/hf"});
  table.add("save_strategy", &P::save_strategy,
            {.help = "When checkpoints are written.",
             .choices = {"no", "steps", "epoch"},
             .supported = {"no"},
             .missing = checkpoints});
  table.add(
      "save_total_limit", &P::save_total_limit,
      {.help = "Checkpoints kept.", .range = kAtLeastOne, .no_effect = "this version writes no checkpoints"});
  table.add("unified_checkpoint", &P::unified_checkpoint,
            {.help = "Write checkpoints that do not depend on the number of ranks.",
             .no_effect = "this version writes no checkpoints, and the finished model never depends on it"});
  table.add("resume_from_checkpoint", &P::resume_from_checkpoint,
            {.help = "A checkpoint to go on from.",
             .missing = "checkpoints to go on from (--continue_training 1 starts from a model's weights)"});
  table.add("ignore_data_skip", &P::ignore_data_skip,
            {.help = "Begin the data anew when going on from a checkpoint.",
             .no_effect = "it matters when going on from a checkpoint, which this version cannot"});
}

}  // namespace

void add_parallel_options(Table& table) {
  table.group("Parallel");
  add_pipeline(table);
  add_strands_to_come(table);
  table.group("Memory");
  add_recompute(table);
}

void add_run_options(Table& table) {
  table.group("Run");
  table.add("do_train", &P::do_train, {.help = "Train."});
  table.add("do_eval", &P::do_eval, {.help = "Evaluate on the validation part."});
  table.add("do_predict", &P::do_predict,
            {.help = "Evaluate on the test part.",
             .supported = {"false"},
             .missing = "evaluation on the test part"});
  table.add("max_steps", &P::max_steps,
            {.help = "Updates of the weights. Must be given with do_train.",
             .unit = "steps",
             .range = {.at_least = 1, .also = -1}});
  table.add("eval_steps", &P::eval_steps,
            {.help = "With do_eval: steps between evaluations; one always takes place at the end. Unset: "
                     "logging_steps.",
             .unit = "steps",
             .range = kAtLeastOne});
  table.add("eval_iters", &P::eval_iters,
            {.help = "Microbatches in an evaluation.", .unit = "microbatches", .range = kAtLeastOne});
  table.add("seed", &P::seed,
            {.help = "Seed of the weights, and of the data unless data_seed is given.",
             .range = {.at_least = 0, .at_most = 4294967295.0}});
  table.add("device", &P::device,
            {.help = "What computes; gpu and cuda mean the same and need a build with BRAID_CUDA.",
             .choices = {"cpu", "gpu", "cuda"}});
  table.add("num_threads", &P::num_threads,
            {.help = "Compute threads of a rank. 0: as OMP_NUM_THREADS says, else 1.",
             .range = {.at_least = 0, .at_most = 4096}});
  table.add("dist_timeout", &P::dist_timeout,
            {.help = "How long a rank waits for another before it ends the run, naming whom it waited for.",
             .unit = "seconds",
             .range = {.at_least = 1, .at_most = 1e6}});
}

void add_output_options(Table& table) {
  table.group("Output");
  table.add("output_dir", &P::output_dir,
            {.help = "Where metrics and the model are written. Must be given."});
  table.add("overwrite_output_dir", &P::overwrite_output_dir,
            {.help = "Write into a directory that holds an earlier run."});
  table.add("logging_steps", &P::logging_steps,
            {.help = "Steps between log lines; metrics.jsonl has every step.",
             .unit = "steps",
             .range = kAtLeastOne});
  table.add(
      "profile_steps", &P::profile_steps,
      {.help = "A,B: of steps A to B, write what each rank did when to <output_dir>/profile, as a trace "
               "for Perfetto and as a drawing beside the plan."});
  table.add("disable_tqdm", &P::disable_tqdm, {.help = "No progress bar on a terminal."});
  table.add("report_to", &P::report_to,
            {.help = "Where else metrics go; <output_dir>/metrics.jsonl is always written.",
             .choices = {"none", "visualdl", "wandb", "tensorboard", "all"},
             .supported = {"none"},
             .missing = "other place for metrics than <output_dir>/metrics.jsonl"});
  table.add("skip_memory_metrics", &P::skip_memory_metrics,
            {.help = "Leave memory out of the log.", .no_effect = "memory is always logged"});
  table.add("skip_export", &P::skip_export,
            {.help = "Do not write the model to <output_dir>/hf at the end: for measuring speed."});
  add_checkpoints(table);
}

}  // namespace braid::config
