#include "braid/config/paddlenlp_options.h"

#include <string>
#include <utility>
#include <vector>

namespace braid::config {
namespace {

constexpr auto kSwitch = OptionKind::kSwitch;
constexpr auto kInteger = OptionKind::kInteger;
constexpr auto kReal = OptionKind::kReal;
constexpr auto kText = OptionKind::kText;

using Texts = std::vector<std::string>;

// Rows are in the order of PaddleNLP's own lists.
class Rows {
 public:
  void group(std::string name) { group_ = std::move(name); }

  // Any value, which cannot matter because `reason`.
  OptionInfo& accept(const std::string& name, OptionKind kind, const Texts& standard,
                     const std::string& reason) {
    return add(name, kind, standard, {.help = "An option of PaddleNLP's.", .no_effect = reason});
  }

  // Only `values`, with which nothing changes; others ask for `missing`.
  OptionInfo& only(const std::string& name, OptionKind kind, const Texts& values,
                   const std::string& missing) {
    return add(name, kind, {values.front()},
               {.help = "An option of PaddleNLP's.",
                .supported = values,
                .missing = missing,
                .no_effect = "other values would ask for " + missing});
  }

  void make_last_a_list() { specs_.back().is_list = true; }

  std::vector<OptionSpec> take() { return std::move(specs_); }

 private:
  OptionInfo& add(const std::string& name, OptionKind kind, const Texts& standard, OptionInfo info) {
    specs_.push_back(
        {.name = name, .group = group_, .kind = kind, .default_values = standard, .info = std::move(info)});
    return specs_.back().info;
  }

  std::string group_;
  std::vector<OptionSpec> specs_;
};

const std::string kNoCheckpoints = "this version writes and reads no checkpoints";
const std::string kNoExperts = "mixtures of experts, which Llama has not";

void add_model(Rows& rows) {
  rows.accept("use_fast_layer_norm", kSwitch, {"false"}, "norms are always computed by fused kernels");
  rows.accept("use_fused_linear", kSwitch, {"false"}, "Llama's matrices have no bias to fuse");
  rows.accept("use_fused_head_and_loss_fn", kSwitch, {"false"}, "the loss is always computed with the head");
  rows.accept("use_fused_linear_cross_entropy", kSwitch, {"false"},
              "the loss is always computed with the head");
  rows.accept("use_fused_dropout_add", kSwitch, {"false"}, "there is no dropout");
  rows.accept("use_linear_fused_grad_add", kSwitch, {"false"},
              "weight gradients are always added in the matrix product");
  rows.accept("enable_fuse_ffn_qkv_pass", kSwitch, {"false"}, "both are always one product");
  rows.accept("fused_linear_param_grad_add", kSwitch, {"false"},
              "weight gradients are always added in the matrix product");
  rows.accept("fuse_sequence_parallel_allreduce", kSwitch, {"false"},
              "gradients of norms are always reduced with those of a whole buffer");
  rows.only("hidden_dropout_prob", kReal, {"0"}, "dropout");
  rows.only("attention_probs_dropout_prob", kReal, {"0"}, "dropout");
  rows.only("attention_dropout", kReal, {"0"}, "dropout");
  rows.only("lora", kSwitch, {"false"}, "training of adapters");
  rows.only("use_long_sequence_strategies", kSwitch, {"false"},
            "PaddleNLP's extensions of rotary embeddings (--rope_scaling has Hugging Face's)");
  rows.only("alibi", kSwitch, {"false"}, "ALiBi in place of rotary embeddings");
  rows.accept("use_cache", kSwitch, {"false"}, "training keeps no cache of keys and values");
  rows.accept("config_name", kText, {}, "the configuration comes from model_name_or_path");
  rows.accept("recompute_use_reentrant", kSwitch, {"false"}, "recomputation does not use autograd");
  rows.accept("pipeline_schedule_profiler_start", kInteger, {"-1"},
              "it is a profiler of Paddle's; use --profile_steps");
  rows.accept("pipeline_schedule_profiler_end", kInteger, {"-1"},
              "it is a profiler of Paddle's; use --profile_steps");
  rows.accept("job_schedule_profiler_start", kInteger, {"-1"},
              "it is a profiler of Paddle's; use --profile_steps");
  rows.accept("job_schedule_profiler_end", kInteger, {"-1"},
              "it is a profiler of Paddle's; use --profile_steps");
  rows.accept("profiler_options", kText, {}, "it is a profiler of Paddle's; use --profile_steps");
}

void add_data(Rows& rows) {
  rows.accept("distributed_dataloader", kSwitch, {"false"},
              "each rank reads its samples from mapped files itself");
  rows.accept("lazy_data_processing", kSwitch, {"true"}, "samples are always read when they are needed");
  rows.accept("dataloader_drop_last", kSwitch, {"false"}, "every step has a whole batch");
  rows.accept("remove_unused_columns", kSwitch, {"true"}, "token files have no columns");
  rows.accept("label_names", kText, {}, "labels are the next tokens").help = "An option of PaddleNLP's.";
  rows.make_last_a_list();
  rows.only("skip_data_intervals", kText, {""}, "skipping steps' data");
  rows.accept("split_inputs_sequence_dim", kSwitch, {"true"}, "it belongs to segment parallelism");
  rows.accept("eos_token", kText, {}, "documents end with the id that is in the token files");
  rows.accept("count_trained_tokens", kSwitch, {"false"}, "the log always has tokens per second");
}

void add_optimizer(Rows& rows) {
  rows.only("num_train_epochs", kReal, {"1"}, "counting epochs (--max_steps sets the length of a run)");
  rows.accept("num_cycles", kReal, {"0.5"}, "cosine decay in pretraining is always half a wave");
  rows.accept("lr_end", kReal, {"1e-07"}, "it belongs to polynomial decay; --min_learning_rate is the end");
  rows.accept("power", kReal, {"1"}, "it belongs to polynomial decay");
  rows.accept("flatten_param_grads", kSwitch, {"false"}, "gradients always lie in flat buffers");
  rows.accept("release_grads", kSwitch, {"false"},
              "gradient buffers live as long as the run, so that steps allocate nothing");
  rows.accept("ddp_find_unused_parameters", kSwitch, {}, "every parameter has a gradient");
  rows.only("offload_optim", kSwitch, {"false"}, "this switch (use --sharding 'stage1 offload')");
  rows.only("sharding_offload_opt_buffersize_GB", kInteger, {"-1"}, "partial offload");
}

void add_precision(Rows& rows) {
  const Texts precise = {"reduce_sum",
                         "c_softmax_with_cross_entropy",
                         "softmax_with_cross_entropy",
                         "cross_entropy",
                         "elementwise_div",
                         "softmax",
                         "rms_norm",
                         "mean"};
  const Texts fast = {"lookup_table", "lookup_table_v2", "flash_attn",
                      "matmul",       "matmul_v2",       "fused_gemm_epilogue"};
  rows.only("amp_custom_black_list", kText, precise,
            "a choice of the operators in float32 (sums, norms, softmax and loss always are)")
      .no_effect = "these operators are always computed in float32";
  rows.make_last_a_list();
  rows.only("amp_custom_white_list", kText, fast,
            "a choice of the operators in 16 bits (embeddings and matrix products always are)")
      .no_effect = "with bf16 or fp16 these operators always have 16 bits";
  rows.make_last_a_list();
  rows.accept("bf16_full_eval", kSwitch, {"false"}, "evaluation has the precision of training");
  rows.accept("fp16_full_eval", kSwitch, {"false"}, "evaluation has the precision of training");
}

void add_parallel(Rows& rows) {
  rows.only("sharding_parallel_mesh_dimension", kText, {"dp", "sharding"}, "sharding over other axes");
  rows.accept("sharding_comm_buffer_size_MB", kInteger, {"-1"}, "--segment_broadcast_mb sets it");
  rows.only("expert_parallel_degree", kInteger, {"-1", "1"}, kNoExperts);
  rows.only("expert_tensor_parallel_degree", kInteger, {"-1", "1"}, kNoExperts);
  rows.only("use_expert_parallel", kSwitch, {"false"}, kNoExperts);
  rows.accept("expert_max_capacity", kInteger, {"4294967296"}, "Llama has no experts");
  rows.accept("expert_min_capacity", kInteger, {"1"}, "Llama has no experts");
  rows.accept("data_parallel_config", kText, {""},
              "gradients are summed, and divided by the number of labels beforehand");
  rows.accept("sequence_parallel_config", kText, {""},
              "gradients are summed, and divided by the number of labels beforehand");
  rows.accept("to_static", kSwitch, {"false"}, "braid has one engine");
  rows.accept("local_rank", kInteger, {"-1"}, "the launcher's variables say which rank this is");
  rows.only("no_cuda", kSwitch, {"false"}, "this switch (use --device cpu)");
}

void add_run(Rows& rows) {
  rows.only("do_export", kSwitch, {"false"}, "export to Paddle's inference format");
  rows.only("evaluation_strategy", kText, {"steps", "no"}, "evaluation by epochs (--eval_steps counts steps)")
      .no_effect = "--do_eval and --eval_steps say when the run evaluates";
  rows.accept("prediction_loss_only", kSwitch, {"false"}, "evaluation always computes the loss alone");
  rows.accept("eval_accumulation_steps", kInteger, {}, "evaluation keeps no predictions");
  rows.accept("minimum_eval_times", kInteger, {}, "--eval_steps says when the run evaluates");
  rows.only("max_evaluate_steps", kInteger, {"-1"}, "this option (use --eval_iters)");
  rows.accept("past_index", kInteger, {"-1"}, "Llama has no state from one step to the next");
  rows.only("load_best_model_at_end", kSwitch, {"false"}, "choosing among checkpoints");
  rows.accept("metric_for_best_model", kText, {}, kNoCheckpoints);
  rows.accept("greater_is_better", kSwitch, {}, kNoCheckpoints);
  rows.accept("test_iters", kInteger, {"100"}, "the test set is not evaluated");
  rows.accept("align_mode", kSwitch, {"false"}, "results are always reproducible to the last bit");
}

void add_output(Rows& rows) {
  rows.only("logging_strategy", kText, {"steps"}, "logging by epochs");
  rows.accept("logging_first_step", kSwitch, {"false"}, "metrics.jsonl has every step");
  rows.accept("log_on_each_node", kSwitch, {"true"}, "every rank's log is in the launcher's --log_dir");
  rows.accept("skip_profile_timer", kSwitch, {"true"}, "it is a timer of Paddle's; use --profile_steps");
  rows.accept("metrics_output_path", kText, {}, "metrics are in <output_dir>/metrics.jsonl");
  rows.accept("output_signal_dir", kText, {}, kNoCheckpoints);
}

void add_checkpoints(Rows& rows) {
  for (const char* name : {"save_on_each_node", "save_sharded_model", "ignore_save_lr_and_optim",
                           "use_async_save", "save_sharding_stage1_model_include_freeze_params"}) {
    rows.accept(name, kSwitch, {"false"}, kNoCheckpoints);
  }
  rows.accept("unified_checkpoint_config", kText, {""}, kNoCheckpoints);
  rows.accept("ordered_save_group_size", kInteger, {"0"}, kNoCheckpoints);
  rows.accept("ckpt_quant_stage", kText, {"O0"}, kNoCheckpoints);
  rows.accept("save_tokenizer", kSwitch, {"true"}, "the model's tokenizer is always written with it");
  for (const char* name : {"load_sharded_model", "ignore_load_lr_and_optim", "force_reshard_pp",
                           "auto_parallel_resume_form_hybrid_parallel", "pdc_download_ckpt"}) {
    rows.accept(name, kSwitch, {"false"}, kNoCheckpoints);
  }
  rows.accept("pdc_download_timeout", kInteger, {"300"}, kNoCheckpoints);
}

std::vector<OptionSpec> make_rows() {
  Rows rows;
  rows.group("PaddleNLP's other options");
  add_model(rows);
  add_data(rows);
  add_optimizer(rows);
  add_precision(rows);
  add_parallel(rows);
  add_run(rows);
  add_output(rows);
  add_checkpoints(rows);
  return rows.take();
}

}  // namespace

std::span<const OptionSpec> paddlenlp_options() {
  static const std::vector<OptionSpec> kAll = make_rows();
  return kAll;
}

}  // namespace braid::config
