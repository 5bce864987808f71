#include "braid/config/paddlenlp_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "braid/base/error.h"
#include "braid/config/pretrain.h"
#include "braid/config/pretrain_table.h"

namespace braid::config {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::vector<std::string> run_with(const std::string& argument) {
  return {"--model_name_or_path=braid/llama-tiny",
          "--synthetic_data",
          "--output_dir=o",
          "--do_train",
          "--max_steps=5",
          argument};
}

// PaddleNLP 3.0's training arguments, all of which must be known: as an option of braid's or as one of the
// others.
constexpr std::string_view kTrainingArguments =
    "output_dir overwrite_output_dir do_train do_eval do_predict do_export evaluation_strategy "
    "prediction_loss_only per_device_train_batch_size per_device_eval_batch_size gradient_accumulation_steps "
    "eval_accumulation_steps learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm "
    "num_train_epochs max_steps lr_scheduler_type warmup_ratio warmup_steps num_cycles lr_end power "
    "log_on_each_node output_signal_dir logging_strategy logging_first_step logging_steps save_strategy "
    "save_steps save_total_limit save_on_each_node no_cuda seed bf16 fp16 fp16_opt_level amp_master_grad "
    "bf16_full_eval fp16_full_eval amp_custom_black_list amp_custom_white_list sharding sharding_degree "
    "sharding_parallel_degree sharding_parallel_mesh_dimension sharding_comm_buffer_size_MB "
    "save_sharded_model "
    "load_sharded_model tensor_parallel_degree pipeline_parallel_degree sep_parallel_degree "
    "split_inputs_sequence_dim context_parallel_degree expert_parallel_degree expert_tensor_parallel_degree "
    "data_parallel_config sequence_parallel fuse_sequence_parallel_allreduce sequence_parallel_config "
    "tensor_parallel_config pipeline_parallel_config sharding_parallel_config hybrid_parallel_topo_order "
    "recompute refined_recompute scale_loss minimum_eval_times local_rank dataloader_drop_last eval_steps "
    "max_evaluate_steps dataloader_num_workers past_index device disable_tqdm remove_unused_columns "
    "label_names "
    "load_best_model_at_end metric_for_best_model greater_is_better ignore_data_skip optim report_to "
    "ddp_find_unused_parameters resume_from_checkpoint auto_parallel_resume_form_hybrid_parallel "
    "skip_memory_metrics flatten_param_grads lazy_data_processing use_async_save ordered_save_group_size "
    "metrics_output_path skip_profile_timer distributed_dataloader unified_checkpoint to_static "
    "unified_checkpoint_config ckpt_quant_stage ignore_load_lr_and_optim ignore_save_lr_and_optim "
    "force_reshard_pp enable_auto_parallel use_expert_parallel expert_max_capacity expert_min_capacity "
    "release_grads skip_data_intervals offload_optim save_sharding_stage1_model_include_freeze_params "
    "pdc_download_ckpt pdc_download_timeout count_trained_tokens pad_token_id";

TEST(PaddleNlpOptions, EveryTrainingArgumentIsKnownOnce) {
  const auto table = pretrain_table();
  for (const std::string& name : split(kTrainingArguments, ' ')) {
    const bool is_own = find_option(table.specs(), name) != nullptr;
    EXPECT_NE(is_own, find_option(paddlenlp_options(), name) != nullptr) << name;
  }
  for (const OptionSpec& spec : paddlenlp_options()) {
    EXPECT_EQ(find_option(table.specs(), spec.name), nullptr) << spec.name << " has two rows";
    EXPECT_EQ(find_option(paddlenlp_options(), spec.name), &spec) << spec.name << " has two rows";
  }
}

TEST(PaddleNlpOptions, TheirDefaultsAreAcceptedAndNamed) {
  for (const OptionSpec& spec : paddlenlp_options()) {
    if (spec.default_values.empty()) continue;
    EXPECT_THAT(parse_pretrain(run_with("--" + spec.name + "=" + spec.default_values.front())).notes,
                Contains(HasSubstr("--" + spec.name)));
    EXPECT_THAT(pretrain_help(spec.name), HasSubstr("No effect: "));
  }
}

TEST(PaddleNlpOptions, ValuesThatWouldChangeTheResultAreRejectedByName) {
  for (const OptionSpec& spec : paddlenlp_options()) {
    if (spec.info.missing.empty()) continue;
    const std::string value = spec.kind == OptionKind::kSwitch ? "true"
                              : spec.kind == OptionKind::kText ? "x"
                                                               : "7";
    try {
      parse_pretrain(run_with("--" + spec.name + "=" + value));
      ADD_FAILURE() << spec.name;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--" + spec.name + " " + value + ": this version of braid"));
    }
  }
}

}  // namespace
}  // namespace braid::config
