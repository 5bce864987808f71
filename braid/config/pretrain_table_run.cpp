// The option table of `braid pretrain`, second half: parallelism, memory, run and output.
#include <string>
#include <string_view>

#include "braid/base/error.h"
#include "braid/config/config_words.h"
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

// The help of an option whose value is words.
std::string words_help(std::string_view option, std::string_view effect) {
  return cat("Space-separated words from PaddleNLP: ", accepted_words(option), ". ", effect);
}

constexpr std::string_view kNotNeeded =
    "They have no effect: what they switch on is always on or never needed, as the log then says.";

void add_degrees(Table& table) {
  table.add("strategy", &P::strategy,
            {.help = "A YAML or JSON file with Paddle's keys sharding, pipeline, sharding_configs and "
                     "pipeline_configs (docs/strategy.md), which stand for the options below; options given "
                     "beside it take precedence. Unset: none."});
  table.add("tensor_parallel_degree", &P::tensor_parallel_degree,
            {.help = "Ranks over which each layer's matrices are divided (mp, the innermost axis); -1: one.",
             .range = kDegree});
  table.add(
      "sharding_parallel_degree", &P::sharding_parallel_degree,
      {.help = "Data ranks over which the sharding stage divides states, gradients and weights; -1: with "
               "sharding, all data ranks, else one.",
       .range = kDegree});
  table.add("pipeline_parallel_degree", &P::pipeline_parallel_degree,
            {.help = "Pipeline ranks over which the layers are distributed; -1: one.", .range = kDegree});
  table.add(
      "data_parallel_degree", &P::data_parallel_degree,
      {.help = "Replicas around everything else (dp, the outermost axis); -1: what remains of the ranks. "
               "The product of the four degrees is the number of ranks.",
       .range = kDegree});
}

void add_pipeline(Table& table) {
  table.add("pipeline_schedule_mode", &P::pipeline_schedule_mode,
            {.help = "The pipeline schedule: " + schedule::mode_names() +
                     "; or csv:FILE, a schedule in the CSV format of PyTorch's pipelining."});
  table.add("enable_send_recv_overlap", &P::enable_send_recv_overlap,
            {.help = "Post receives early, so that messages travel during computation."});
  table.add("pipeline_parallel_config", &P::pipeline_parallel_config,
            {.help = words_help("pipeline_parallel_config",
                                "enable_send_recv_overlap and enable_overlap_p2p_comm act as the option "
                                "enable_send_recv_overlap; the others are always on.")});
  table.add("virtual_pp_degree", &P::virtual_pp_degree,
            {.help = "Chunks of layers per rank, for VPP and InterleavedZB; may stay 1 for schedules that "
                     "always have two (ZBVPP, V-Half, V-Min, DualPipeV).",
             .range = {.at_least = 1, .at_most = 1024}});
  table.add(
      "schedule_times", &P::schedule_times,
      {.help = "Times of F, I (input gradient) and W (weight gradient) of a microbatch for a rank's "
               "whole part of the model, and of a message, in any unit: F,I,W or F,I,W,MESSAGE; or "
               "file:PATH, the times of each stage as written by --profile_steps. The plan is simulated "
               "with them, and schedules that depend on times (ZBVPP, V-Half, V-Min, auto) are made for "
               "them. Unset: these schedules measure at the start; the others, and dry_run, take times "
               "in proportion to FLOPs."});
  table.add(
      "schedule_mp_exchange", &P::schedule_mp_exchange,
      {.help =
           "The parts of schedule_times' F and I in which a rank waits for its tensor-parallel group, in the "
           "same unit: F,I. Schedules that split the backward run weight gradients behind them. Requires "
           "schedule_times, and overrides what its file says. Unset: a tenth of F and I."});
  table.add("schedule_memory_limit", &P::schedule_memory_limit,
            {.help = "Most memory that any rank may hold for microbatches between their forward and their "
                     "weight gradients. auto and ZBVPP respect it; other schedules are rejected if they "
                     "exceed it. Unset: no limit.",
             .unit = "bytes",
             .range = kAtLeastOne});
  table.add(
      "segment_broadcast_mb", &P::segment_broadcast_mb,
      {.help =
           "A stage's parameters are stored in flat buffers of whole layers, each closed once its weights "
           "reach this size. Results do not depend on it.",
       .unit = "MiB",
       .range = kPositive,
       .aliases = {"segment_broadcast_MB"}});
  table.add(
      "segment_anchors", &P::segment_anchors,
      {.help = "Layers, by name and separated by spaces (as model.layers.4.self_attn), at which a new buffer "
               "begins, in place of segment_broadcast_mb."});
  table.add("virtual_pipeline_seg_method", &P::virtual_pipeline_seg_method,
            {.help = "Class of layers counted when partitioning.",
             .no_effect = "decoder layers are partitioned by cost, including the embedding and the head"});
}

void add_other_parallelism(Table& table) {
  table.add("tensor_parallel_config", &P::tensor_parallel_config,
            {.help = words_help("tensor_parallel_config", kNotNeeded)});
  table.add(
      "sequence_parallel", &P::sequence_parallel,
      {.help = "Divide norms along the sequence over the ranks of tensor_parallel_degree, which must be "
               "above 1: less memory for activations, at the same number of bytes sent."});
  table.add(
      "sharding", &P::sharding,
      {.help = "ZeRO's stage. stage1 divides optimizer states over the ranks of "
               "sharding_parallel_degree, stage2 also gradients, stage3 also weights, which are then "
               "gathered twice per microbatch; stage0 divides nothing, and true is stage1. With offload, "
               "master weights and moments are kept outside the device, whatever the degree.",
       .choices = {"", "true", "stage0", "stage1", "stage2", "stage3", "stage0 offload", "stage1 offload",
                   "stage2 offload", "stage3 offload"}});
  table.add("sharding_parallel_config", &P::sharding_parallel_config,
            {.help = words_help("sharding_parallel_config", kNotNeeded)});
  table.add("sharding_reduce", &P::sharding_reduce,
            {.help = "When gradients are reduced over the sharding ranks: once a step, or after each "
                     "microbatch. Unset: step for stages 0 and 1, microbatch for 2 and 3.",
             .choices = {"step", "microbatch"}});
  table.add("offload_dir", &P::offload_dir,
            {.help = "The directory of the file that holds an offloaded optimizer (sharding with offload). "
                     "Unset: pinned host memory on GPUs, a file in output_dir on CPUs."});
  table.add("sep_parallel_degree", &P::sep_parallel_degree,
            {.help = "Ranks that split a sequence by heads; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "segment parallelism"});
  table.add("context_parallel_degree", &P::context_parallel_degree,
            {.help = "Ranks that split a sequence in a ring; -1: one.",
             .range = kDegree,
             .supported = {"-1", "1"},
             .missing = "context parallelism"});
  table.add("hybrid_parallel_topo_order", &P::hybrid_parallel_topo_order,
            {.help = "Nesting of the axes, outer to inner: pp_first is dp, pp, sharding, mp.",
             .choices = {"pp_first", "sharding_first"},
             .supported = {"pp_first"},
             .missing = "other rank orders"});
  table.add("enable_auto_parallel", &P::enable_auto_parallel,
            {.help = "PaddleNLP's choice between two engines.", .no_effect = "braid has one engine"});
}

void add_recompute(Table& table) {
  table.add(
      "recompute", &P::recompute,
      {.help = "Recompute activations in the backward pass instead of keeping them; with every schedule."});
  table.add(
      "recompute_granularity", &P::recompute_granularity,
      {.help = "What is recomputed: whole decoder layers (full), attention with its projections "
               "(full_attn) or without (core_attn); or of each decoder layer the least with which its rank "
               "keeps schedule_memory_limit (auto).",
       .choices = {"full", "full_attn", "core_attn", "auto"}});
  table.add("no_recompute_layers", &P::no_recompute_layers,
            {.help = "Decoder layers, counted from 0, that are not recomputed.", .range = kNotNegative});
  table.add("refined_recompute", &P::refined_recompute,
            {.help = "Operators excluded from recomputation.",
             .supported = {""},
             .missing = "recomputation by operator (recompute_granularity and no_recompute_layers choose)"});
  table.add("pp_recompute_interval", &P::pp_recompute_interval,
            {.help = "Layers recomputed together.",
             .range = kNotNegative,
             .supported = {"1"},
             .missing = "recomputation of several layers together"});
  table.add(
      "early_weight_gradients", &P::early_weight_gradients,
      {.help = "Schedules that split the backward pass (ZBH1 and others) compute the weight gradients of "
               "q, k, v and of the MLP's second product in B, so that about half as much is kept for W. B "
               "becomes longer and W shorter: see docs/pretrain.md. Results do not depend on it."});
}

void add_checkpoints(Table& table) {
  const std::string checkpoints = "checkpoints (the final model is written to <output_dir>/hf)";
  table.add("save_steps", &P::save_steps,
            {.help = "Steps between checkpoints. Values above max_steps are accepted because no checkpoint "
                     "is due; so is any value with save_strategy no. PaddleNLP's default is 500.",
             .unit = "steps",
             .range = kAtLeastOne,
             .no_effect = "no checkpoint is due in this run; the final model is written to <output_dir>/hf"});
  table.add("save_strategy", &P::save_strategy,
            {.help = "When checkpoints are written.",
             .choices = {"no", "steps", "epoch"},
             .supported = {"no"},
             .missing = checkpoints});
  table.add(
      "save_total_limit", &P::save_total_limit,
      {.help = "Checkpoints kept.", .range = kAtLeastOne, .no_effect = "this version writes no checkpoints"});
  table.add(
      "unified_checkpoint", &P::unified_checkpoint,
      {.help = "Write checkpoints that do not depend on the number of ranks.",
       .no_effect =
           "this version writes no checkpoints, and the final model never depends on the number of ranks"});
  table.add("resume_from_checkpoint", &P::resume_from_checkpoint,
            {.help = "A checkpoint to resume from.",
             .missing = "resuming from checkpoints (--continue_training 1 starts from a model's weights)"});
  table.add("ignore_data_skip", &P::ignore_data_skip,
            {.help = "Restart the data from the beginning when resuming.",
             .no_effect = "it applies only when resuming, which this version does not support"});
}

}  // namespace

void add_parallel_options(Table& table) {
  table.group("Parallel");
  add_degrees(table);
  add_pipeline(table);
  add_other_parallelism(table);
  table.group("Memory");
  add_recompute(table);
}

void add_run_options(Table& table) {
  table.group("Run");
  table.add("do_train", &P::do_train, {.help = "Train."});
  table.add("do_eval", &P::do_eval, {.help = "Evaluate on the validation set."});
  table.add(
      "do_predict", &P::do_predict,
      {.help = "Evaluate on the test set.", .supported = {"false"}, .missing = "evaluation on the test set"});
  table.add("max_steps", &P::max_steps,
            {.help = "Optimizer steps. Required with do_train.",
             .unit = "steps",
             .range = {.at_least = 1, .also = -1}});
  table.add(
      "eval_steps", &P::eval_steps,
      {.help =
           "Steps between evaluations with do_eval; there is always one at the end. Unset: logging_steps.",
       .unit = "steps",
       .range = kAtLeastOne});
  table.add(
      "eval_iters", &P::eval_iters,
      {.help = "Microbatches per evaluation. Unset: the whole validation part, once, if it has at most a "
               "quarter of the tokens trained on between two evaluations (without do_train: at most a "
               "million) and comes from one file; else 10.",
       .unit = "microbatches",
       .range = kAtLeastOne});
  table.add("seed", &P::seed,
            {.help = "Seed of the initial weights, and of the data unless data_seed is given.",
             .range = {.at_least = 0, .at_most = 4294967295.0}});
  table.add("device", &P::device,
            {.help = "The compute device; gpu and cuda are the same and need a build with BRAID_CUDA.",
             .choices = {"cpu", "gpu", "cuda"}});
  table.add("num_threads", &P::num_threads,
            {.help = "Compute threads per rank. 0: OMP_NUM_THREADS if set, else 1.",
             .range = {.at_least = 0, .at_most = 4096}});
  table.add(
      "dry_run", &P::dry_run,
      {.help =
           "1: print the plan of the run (layers, memory and messages of each rank, and the simulated "
           "step) and end, without starting ranks or reading weights or data; json: as JSON; svg: a drawing "
           "of the ranks on their nodes, which shows who sends how much to whom on each axis.",
       .choices = {"0", "1", "json", "svg"}});
  table.add("ranks_per_node", &P::ranks_per_node,
            {.help = "Ranks on each node, for the drawing of dry_run svg.",
             .unit = "ranks",
             .range = {.at_least = 1, .at_most = 4096}});
  table.add(
      "dist_timeout", &P::dist_timeout,
      {.help = "How long a rank waits for a peer before it aborts the run with an error that names the peer.",
       .unit = "seconds",
       .range = {.at_least = 1, .at_most = 1e6}});
}

void add_output_options(Table& table) {
  table.group("Output");
  table.add("output_dir", &P::output_dir, {.help = "Where metrics and the model are written. Required."});
  table.add("overwrite_output_dir", &P::overwrite_output_dir,
            {.help = "Allow writing into a directory that holds an earlier run.", .aliases = {"overwrite"}});
  table.add("logging_steps", &P::logging_steps,
            {.help = "Steps between log lines; metrics.jsonl has every step.",
             .unit = "steps",
             .range = kAtLeastOne});
  table.add("profile_steps", &P::profile_steps,
            {.help = "A,B: for steps A to B, write each rank's timeline to <output_dir>/profile, as a trace "
                     "for Perfetto and as a drawing next to the plan."});
  table.add("disable_tqdm", &P::disable_tqdm, {.help = "Do not show a progress bar on a terminal."});
  table.add("report_to", &P::report_to,
            {.help = "Where each log line's values go as curves, and the options as text, besides "
                     "<output_dir>/metrics.jsonl: VisualDL's and TensorBoard's files, an offline run of "
                     "Weights & Biases, all of them, or none. Several may be given. Unset: visualdl.",
             .choices = {"visualdl", "tensorboard", "wandb", "all", "none"}});
  table.add(
      "logging_dir", &P::logging_dir,
      {.help = "The folder of report_to's files. Unset: <output_dir>/runs/<time>_<host> for VisualDL and "
               "TensorBoard, <output_dir> for Weights & Biases."});
  table.add("run_name", &P::run_name,
            {.help = "The run's name in VisualDL and Weights & Biases. Unset: output_dir."});
  table.add(
      "log_format", &P::log_format,
      {.help = "The log's lines: full, with PaddleNLP's keys; short, for a terminal of 80 columns; auto: "
               "short on a terminal and full elsewhere.",
       .choices = {"auto", "short", "full"}});
  table.add("skip_memory_metrics", &P::skip_memory_metrics,
            {.help = "Omit memory from the log.", .no_effect = "memory is always logged"});
  table.add("skip_export", &P::skip_export,
            {.help = "Do not write the model to <output_dir>/hf at the end; for measuring speed."});
  add_checkpoints(table);
}

}  // namespace braid::config
