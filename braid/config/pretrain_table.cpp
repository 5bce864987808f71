#include "braid/config/pretrain_table.h"

#include <string>
#include <vector>

#include "braid/config/paddlenlp_options.h"
#include "braid/config/pretrain_table_parts.h"

namespace braid::config {
namespace {

using Table = OptionTable<PretrainOptions>;
using P = PretrainOptions;

constexpr Range kAtLeastOne{.at_least = 1};
constexpr Range kNotNegative{.at_least = 0};
constexpr Range kPositive{.above = 0};

void add_overrides(Table& table) {
  table.group("Model overrides (keys of config.json; unset keeps the model's)");
  table.add("vocab_size", &P::vocab_size,
            {.help = "Rows of the embedding. Unset: the model's value, or the size of the tokenizer rounded "
                     "up to a multiple of 128 if larger.",
             .range = kAtLeastOne});
  table.add("hidden_size", &P::hidden_size, {.help = "Width of the residual stream.", .range = kAtLeastOne});
  table.add("intermediate_size", &P::intermediate_size, {.help = "Width of the MLP.", .range = kAtLeastOne});
  table.add("num_hidden_layers", &P::num_hidden_layers, {.help = "Decoder layers.", .range = kAtLeastOne});
  table.add("num_attention_heads", &P::num_attention_heads, {.help = "Query heads.", .range = kAtLeastOne});
  table.add("num_key_value_heads", &P::num_key_value_heads,
            {.help = "Key and value heads; num_attention_heads must be a multiple.", .range = kAtLeastOne});
  table.add("head_dim", &P::head_dim, {.help = "Width of a head; must be even.", .range = {.at_least = 2}});
  table.add("max_position_embeddings", &P::max_position_embeddings,
            {.help = "Longest sequence. Raised to max_seq_length for a model trained from scratch.",
             .unit = "tokens",
             .range = kAtLeastOne});
  table.add("initializer_range", &P::initializer_range,
            {.help = "Standard deviation of the initial weights.", .range = kNotNegative});
  table.add("rms_norm_eps", &P::rms_norm_eps,
            {.help = "RMSNorm's epsilon.", .range = {.above = 0, .below = 1}});
  table.add("rope_theta", &P::rope_theta, {.help = "Base of the rotary frequencies.", .range = {.above = 1}});
  table.add("rope_scaling", &P::rope_scaling,
            {.help = "Hugging Face's object as JSON text, such as '{\"rope_type\": \"linear\", \"factor\": "
                     "2}', or none."});
  table.add("tie_word_embeddings", &P::tie_word_embeddings,
            {.help = "Share the embedding's weight with the output head."});
  table.add("bos_token_id", &P::bos_token_id, {.help = "Beginning-of-text token.", .range = kNotNegative});
  table.add("eos_token_id", &P::eos_token_id, {.help = "End-of-text token.", .range = kNotNegative});
  table.add("pad_token_id", &P::pad_token_id, {.help = "Padding token.", .range = kNotNegative});
}

}  // namespace

void add_model_options(Table& table) {
  table.group("Model");
  table.add("model_type", &P::model_type,
            {.help = "The architecture.", .supported = {"llama"}, .missing = "other architecture"});
  table.add("model_name_or_path", &P::model_name_or_path,
            {.help = "A directory with Hugging Face's config.json, or a preset such as facebook/llama-7b, "
                     "llama-3-8b or braid/llama-10m. Required.",
             .known_as = {"model", "model_name", "config", "load"},
             .is_basic = true});
  table.add("tokenizer_name_or_path", &P::tokenizer_name_or_path,
            {.help = "The tokenizer that made the data: byte, sentencepiece:FILE, a .model file or a "
                     "directory with tokenizer.model. "
                     "It determines the vocabulary size and is copied into the exported model.",
             .known_as = {"tokenizer", "tokenizer_model", "tokenizer_path"}});
  table.add(
      "continue_training", &P::continue_training,
      {.help = "Start from the weights in model_name_or_path instead of random weights.", .is_basic = true});
  const std::string same = "fused kernels are always used, with the same result";
  table.add("use_flash_attention", &P::use_flash_attention,
            {.help = "Compute attention without materialising the score matrix.",
             .no_effect = "attention is always computed this way, with the same result"});
  table.add("use_fused_rms_norm", &P::use_fused_rms_norm,
            {.help = "Use a fused RMSNorm.", .no_effect = same});
  table.add("use_fused_rope", &P::use_fused_rope,
            {.help = "Use fused rotary embeddings.", .no_effect = same});
  table.add(
      "fuse_attention_qkv", &P::fuse_attention_qkv,
      {.help = "Compute queries, keys and values in one matrix product.",
       .no_effect = "it is always one product, with the same result; files keep the matrices separate"});
  table.add(
      "fuse_attention_ffn", &P::fuse_attention_ffn,
      {.help = "Compute the gate and up projections in one matrix product.",
       .no_effect = "it is always one product, with the same result; files keep the matrices separate"});
  add_overrides(table);
}

void add_data_options(Table& table) {
  table.group("Data");
  table.add("input_dir", &P::input_dir,
            {.help = "A directory of .bin/.idx pairs, a prefix of one, or 'weight prefix weight prefix ...'. "
                     "Required unless synthetic_data is on.",
             .known_as = {"data", "data_path", "dataset", "data_dir", "train_data"},
             .is_basic = true});
  table.add(
      "split", &P::split,
      {.help = "Weights of the training, validation and test sets: 1 to 3 numbers separated by , or /."});
  table.add(
      "max_seq_length", &P::max_seq_length,
      {.help = "Length of a training sample.",
       .unit = "tokens",
       .range = kAtLeastOne,
       .known_as = {"seq_length", "seq_len", "sequence_length", "block_size", "context_length", "max_length"},
       .is_basic = true});
  table.add("synthetic_data", &P::synthetic_data,
            {.help = "Train on random tokens instead of input_dir, to measure speed without data."});
  table.add(
      "data_seed", &P::data_seed,
      {.help = "Seed of the sample order. Unset: seed.", .range = {.at_least = 0, .at_most = 4294967295.0}});
  table.add("data_impl", &P::data_impl,
            {.help = "How the files are read.",
             .choices = {"mmap", "lazy"},
             .supported = {"mmap"},
             .missing = "lazy reading (mapped files are read on demand too)"});
  table.add("dataloader_num_workers", &P::dataloader_num_workers,
            {.help = "Loader processes per rank.",
             .range = kNotNegative,
             .no_effect = "each rank reads samples from mapped files itself, without loader processes"});
  table.add("skip_warmup", &P::skip_warmup,
            {.help = "Skip reading the files once at the start.",
             .supported = {"true"},
             .missing = "warm-up of mapped files"});
  table.add("data_cache", &P::data_cache,
            {.help = "Directory for index caches.",
             .no_effect = "indices are built in memory on every rank; there are no cache files"});
  table.add("share_folder", &P::share_folder,
            {.help = "The data is on a file system shared by all nodes.",
             .no_effect = "indices are built in memory on every rank; there are no cache files"});

  table.group("Batch");
  table.add("per_device_train_batch_size", &P::per_device_train_batch_size,
            {.help = "Samples per microbatch.",
             .unit = "samples",
             .range = kAtLeastOne,
             .known_as = {"batch_size", "micro_batch_size", "train_batch_size", "microbatch_size",
                          "local_batch_size"},
             .is_basic = true});
  table.add("per_device_eval_batch_size", &P::per_device_eval_batch_size,
            {.help = "Samples per microbatch in evaluation.",
             .unit = "samples",
             .range = kAtLeastOne,
             .known_as = {"eval_batch_size"}});
  table.add("gradient_accumulation_steps", &P::gradient_accumulation_steps,
            {.help = "Microbatches per step on each data rank.",
             .unit = "microbatches",
             .range = kAtLeastOne,
             .known_as = {"grad_accum", "accumulate_steps", "grad_accumulation_steps",
                          "gradient_accumulation", "micro_batches", "microbatches"},
             .is_basic = true});
}

void add_optimizer_options(Table& table) {
  table.group("Optimizer");
  table.add("optim", &P::optim,
            {.help = "The optimizer.",
             .choices = {"adamw", "adamw_mini", "adafactor"},
             .supported = {"adamw"},
             .missing = "other optimizers"});
  table.add(
      "learning_rate", &P::learning_rate,
      {.help = "Peak learning rate.", .range = kPositive, .known_as = {"lr", "max_lr"}, .is_basic = true});
  table.add("min_learning_rate", &P::min_learning_rate,
            {.help = "Learning rate at the end of linear and cosine decay.",
             .range = kNotNegative,
             .known_as = {"min_lr"}});
  table.add("lr_scheduler_type", &P::lr_scheduler_type,
            {.help = "Learning rate schedule after warm-up; constant has no warm-up.",
             .choices = {"linear", "cosine", "constant", "constant_with_warmup", "polynomial"},
             .supported = {"linear", "cosine", "constant", "constant_with_warmup"},
             .missing = "polynomial decay",
             .known_as = {"lr_decay_style", "lr_scheduler", "scheduler"},
             .is_basic = true});
  table.add("warmup_ratio", &P::warmup_ratio,
            {.help = "Fraction of max_steps spent on warm-up; warmup_steps takes precedence.",
             .range = {.at_least = 0, .at_most = 1}});
  table.add("warmup_steps", &P::warmup_steps,
            {.help = "Steps over which the learning rate rises from 0. 0: set by warmup_ratio.",
             .unit = "steps",
             .range = kNotNegative,
             .known_as = {"lr_warmup_iters", "warmup_iters", "lr_warmup_steps", "warmup"},
             .is_basic = true});
  table.add("decay_steps", &P::decay_steps,
            {.help = "Step at which decay ends, including warm-up. Unset: max_steps.",
             .unit = "steps",
             .range = kAtLeastOne,
             .known_as = {"lr_decay_iters", "lr_decay_steps"}});
  table.add("weight_decay", &P::weight_decay,
            {.help = "AdamW's weight decay; not applied to norms.", .range = kNotNegative});
  const Range beta{.at_least = 0, .below = 1};
  table.add("adam_beta1", &P::adam_beta1,
            {.help = "Decay of the first moment.", .range = beta, .known_as = {"beta1"}});
  table.add("adam_beta2", &P::adam_beta2,
            {.help = "Decay of the second moment.", .range = beta, .known_as = {"beta2"}});
  table.add("adam_epsilon", &P::adam_epsilon,
            {.help = "Term added to AdamW's denominator.", .range = kPositive});
  table.add("max_grad_norm", &P::max_grad_norm,
            {.help = "Gradients are clipped to this global norm. 0: no clipping.",
             .range = kNotNegative,
             .known_as = {"clip_grad", "grad_clip", "gradient_clipping", "max_norm"}});

  table.group("Precision");
  table.add(
      "bf16", &P::bf16,
      {.help = "Weights and activations in bfloat16; master weights, moments and gradients stay float32.",
       .known_as = {"dtype", "precision", "mixed_precision"},
       .is_basic = true});
  table.add(
      "fp16", &P::fp16,
      {.help = "The same in float16, with dynamic loss scaling (scale_loss). bf16 has a wider range and "
               "needs none."});
  table.add("fp16_opt_level", &P::fp16_opt_level,
            {.help = "O1 and O2 are the same: weights and activations have 16 bits; norms, softmax, loss and "
                     "sums are computed in float32, and master weights and gradients are float32. O0, "
                     "everything in float32, conflicts with fp16 and bf16.",
             .choices = {"O0", "O1", "O2"}});
  table.add(
      "amp_master_grad", &P::amp_master_grad,
      {.help = "Keep gradients in float32.", .no_effect = "gradients are always accumulated in float32"});
  table.add(
      "scale_loss", &P::scale_loss,
      {.help = "Initial loss scale of fp16. It doubles after 1000 steps in a row without overflow and is "
               "multiplied by 0.8 after 2 in a row with one; a step that overflows changes no weight.",
       .range = kAtLeastOne});
}

OptionTable<PretrainOptions> pretrain_table() {
  Table table({.command = "braid pretrain",
               .usage = "[FILE] [--flag value | --flag=value]...",
               .summary = "Pretrains a Llama model on one rank or many. FILE holds options in YAML or "
                          "JSON under the same names; flags override it. A switch without a value is true."});
  add_model_options(table);
  add_data_options(table);
  add_optimizer_options(table);
  add_parallel_options(table);
  add_run_options(table);
  add_output_options(table);
  return table;
}

namespace {

// All options that may be given: braid's own and PaddleNLP's others.
std::vector<OptionSpec> all_options(const Table& table) {
  std::vector<OptionSpec> all(table.specs().begin(), table.specs().end());
  all.insert(all.end(), paddlenlp_options().begin(), paddlenlp_options().end());
  return all;
}

}  // namespace

std::string pretrain_help(const std::optional<std::string>& topic) {
  const Table table = pretrain_table();
  return help_on(table.command(), all_options(table), topic);
}

std::string options_markdown() {
  const Table table = pretrain_table();
  return "<!-- Generated from the option table in braid/config and checked by a test: edit the table "
         "instead. -->\n" +
         markdown_text(table.command(), all_options(table));
}

}  // namespace braid::config
