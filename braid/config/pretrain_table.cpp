#include "braid/config/pretrain_table.h"

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
  table.add(
      "vocab_size", &P::vocab_size,
      {.help =
           "Rows of the embedding. Unset: the model's, or the tokenizer's pieces rounded up to 128 if more.",
       .range = kAtLeastOne});
  table.add("hidden_size", &P::hidden_size, {.help = "Width of the residual stream.", .range = kAtLeastOne});
  table.add("intermediate_size", &P::intermediate_size, {.help = "Width of the MLP.", .range = kAtLeastOne});
  table.add("num_hidden_layers", &P::num_hidden_layers, {.help = "Decoder layers.", .range = kAtLeastOne});
  table.add("num_attention_heads", &P::num_attention_heads, {.help = "Query heads.", .range = kAtLeastOne});
  table.add("num_key_value_heads", &P::num_key_value_heads,
            {.help = "Key and value heads; the query heads are a multiple of them.", .range = kAtLeastOne});
  table.add("head_dim", &P::head_dim, {.help = "Width of a head, an even number.", .range = {.at_least = 2}});
  table.add("max_position_embeddings", &P::max_position_embeddings,
            {.help = "Longest sequence. A fresh model's is raised to max_seq_length.",
             .unit = "tokens",
             .range = kAtLeastOne});
  table.add("initializer_range", &P::initializer_range,
            {.help = "Deviation of a fresh model's weights.", .range = kNotNegative});
  table.add("rms_norm_eps", &P::rms_norm_eps,
            {.help = "RMSNorm's epsilon.", .range = {.above = 0, .below = 1}});
  table.add("rope_theta", &P::rope_theta, {.help = "Base of the rotary frequencies.", .range = {.above = 1}});
  table.add(
      "rope_scaling", &P::rope_scaling,
      {.help = "HF's object as JSON text, such as '{\"rope_type\": \"linear\", \"factor\": 2}', or none."});
  table.add("tie_word_embeddings", &P::tie_word_embeddings,
            {.help = "The head shares the embedding's weight."});
  table.add("bos_token_id", &P::bos_token_id, {.help = "Begins a text.", .range = kNotNegative});
  table.add("eos_token_id", &P::eos_token_id, {.help = "Ends a text.", .range = kNotNegative});
  table.add("pad_token_id", &P::pad_token_id, {.help = "Fills a text up.", .range = kNotNegative});
}

}  // namespace

void add_model_options(Table& table) {
  table.group("Model");
  table.add("model_type", &P::model_type,
            {.help = "The architecture.", .supported = {"llama"}, .missing = "other architecture"});
  table.add("model_name_or_path", &P::model_name_or_path,
            {.help = "A directory with Hugging Face's config.json, or a preset such as facebook/llama-7b, "
                     "llama-3-8b or "
                     "braid/llama-10m. Must be given."});
  table.add("tokenizer_name_or_path", &P::tokenizer_name_or_path,
            {.help = "The tokenizer that made the data: byte, sentencepiece:FILE, a .model file or a "
                     "directory with tokenizer.model. "
                     "It gives the vocabulary's size and goes into the exported model."});
  table.add("continue_training", &P::continue_training,
            {.help = "Start from the weights in model_name_or_path instead of random ones."});
  const std::string same = "fused kernels are always used; results do not depend on it";
  table.add("use_flash_attention", &P::use_flash_attention,
            {.help = "Compute attention without the matrix of scores.",
             .no_effect = "attention is always computed so, with the same result"});
  table.add("use_fused_rms_norm", &P::use_fused_rms_norm,
            {.help = "Use a fused RMSNorm.", .no_effect = same});
  table.add("use_fused_rope", &P::use_fused_rope, {.help = "Use fused rotary positions.", .no_effect = same});
  table.add(
      "fuse_attention_qkv", &P::fuse_attention_qkv,
      {.help = "Project queries, keys and values in one product.",
       .no_effect = "they are always one product, with the same result; files keep the matrices apart"});
  table.add(
      "fuse_attention_ffn", &P::fuse_attention_ffn,
      {.help = "Compute gate and up in one product.",
       .no_effect = "they are always one product, with the same result; files keep the matrices apart"});
  add_overrides(table);
}

void add_data_options(Table& table) {
  table.group("Data");
  table.add("input_dir", &P::input_dir,
            {.help = "A directory of .bin/.idx pairs, a prefix of one, or 'weight prefix weight prefix ...'. "
                     "Must be given, "
                     "unless synthetic_data is on."});
  table.add(
      "split", &P::split,
      {.help = "Weights of the training, validation and test parts: 1 to 3 numbers separated by , or /."});
  table.add("max_seq_length", &P::max_seq_length,
            {.help = "Length of a training sample.", .unit = "tokens", .range = kAtLeastOne});
  table.add(
      "synthetic_data", &P::synthetic_data,
      {.help = "Train on random tokens instead of input_dir: for measuring speed where there is no data."});
  table.add("data_seed", &P::data_seed,
            {.help = "Seed of the order of samples. Unset: seed.",
             .range = {.at_least = 0, .at_most = 4294967295.0}});
  table.add("data_impl", &P::data_impl,
            {.help = "How the files are read.",
             .choices = {"mmap", "lazy"},
             .supported = {"mmap"},
             .missing = "lazy reading (mapped files are read on demand too)"});
  table.add("dataloader_num_workers", &P::dataloader_num_workers,
            {.help = "Loader processes a rank.",
             .range = kNotNegative,
             .no_effect = "samples are read from mapped files by the rank itself, without loader processes"});
  table.add("skip_warmup", &P::skip_warmup,
            {.help = "Do not read the files through once at the start.",
             .supported = {"true"},
             .missing = "warm-up of mapped files"});
  table.add("data_cache", &P::data_cache,
            {.help = "Directory for index caches.",
             .no_effect = "indices are built in memory on every rank, there are no cache files"});
  table.add("share_folder", &P::share_folder,
            {.help = "The data lie on a file system that all nodes share.",
             .no_effect = "indices are built in memory on every rank, there are no cache files"});

  table.group("Batch");
  table.add("per_device_train_batch_size", &P::per_device_train_batch_size,
            {.help = "Samples in a microbatch.", .unit = "samples", .range = kAtLeastOne});
  table.add("per_device_eval_batch_size", &P::per_device_eval_batch_size,
            {.help = "Samples in a microbatch of an evaluation.", .unit = "samples", .range = kAtLeastOne});
  table.add("gradient_accumulation_steps", &P::gradient_accumulation_steps,
            {.help = "Microbatches in a step.", .unit = "microbatches", .range = kAtLeastOne});
}

void add_optimizer_options(Table& table) {
  table.group("Optimizer");
  table.add("optim", &P::optim,
            {.help = "The optimizer.",
             .choices = {"adamw", "adamw_mini", "adafactor"},
             .supported = {"adamw"},
             .missing = "other optimizer"});
  table.add("learning_rate", &P::learning_rate, {.help = "The highest learning rate.", .range = kPositive});
  table.add("min_learning_rate", &P::min_learning_rate,
            {.help = "The learning rate that linear and cosine decay end at.", .range = kNotNegative});
  table.add("lr_scheduler_type", &P::lr_scheduler_type,
            {.help = "The curve after the warm-up; constant has no warm-up.",
             .choices = {"linear", "cosine", "constant", "constant_with_warmup", "polynomial"},
             .supported = {"linear", "cosine", "constant", "constant_with_warmup"},
             .missing = "polynomial decay"});
  table.add("warmup_ratio", &P::warmup_ratio,
            {.help = "Share of max_steps spent on the warm-up; warmup_steps wins.",
             .range = {.at_least = 0, .at_most = 1}});
  table.add("warmup_steps", &P::warmup_steps,
            {.help = "Steps over which the learning rate rises from 0; 0: as warmup_ratio says.",
             .unit = "steps",
             .range = kNotNegative});
  table.add("decay_steps", &P::decay_steps,
            {.help = "The step at which decay ends, warm-up included. Unset: max_steps.",
             .unit = "steps",
             .range = kAtLeastOne});
  table.add("weight_decay", &P::weight_decay,
            {.help = "AdamW's decay of the weights; norms are left out.", .range = kNotNegative});
  const Range beta{.at_least = 0, .below = 1};
  table.add("adam_beta1", &P::adam_beta1, {.help = "Decay of the first moment.", .range = beta});
  table.add("adam_beta2", &P::adam_beta2, {.help = "Decay of the second moment.", .range = beta});
  table.add("adam_epsilon", &P::adam_epsilon, {.help = "Added to the denominator.", .range = kPositive});
  table.add("max_grad_norm", &P::max_grad_norm,
            {.help = "Gradients are scaled down to this norm over all parameters; 0: never.",
             .range = kNotNegative});

  table.group("Precision");
  table.add(
      "bf16", &P::bf16,
      {.help = "Weights and activations in bfloat16; master weights, moments and gradients stay float32."});
  table.add("fp16", &P::fp16,
            {.help = "Weights and activations in float16.",
             .supported = {"false"},
             .missing = "fp16 training (--bf16 1 needs no loss scaling)"});
  table.add("fp16_opt_level", &P::fp16_opt_level,
            {.help = "What is kept in 16 bit.",
             .choices = {"O0", "O1", "O2"},
             .no_effect = "bf16 always works as O2 with float32 gradients, and without bf16 all is float32"});
  table.add("amp_master_grad", &P::amp_master_grad,
            {.help = "Keep gradients in float32.", .no_effect = "gradients are always added up in float32"});
  table.add("scale_loss", &P::scale_loss,
            {.help = "First loss scale of fp16.",
             .range = kPositive,
             .no_effect = "the loss is scaled with fp16 only, which this version lacks"});
}

OptionTable<PretrainOptions> pretrain_table() {
  Table table(
      {.command = "braid pretrain",
       .usage = "[FILE] [--flag value | --flag=value]...",
       .summary =
           "Pretrains a Llama on one rank or over a pipeline. FILE holds options in YAML or JSON under the "
           "same names; flags win over it. A switch without a value is true."});
  add_model_options(table);
  add_data_options(table);
  add_optimizer_options(table);
  add_parallel_options(table);
  add_run_options(table);
  add_output_options(table);
  return table;
}

std::string options_markdown() {
  return "<!-- Made from the option table in braid/config, and a test holds it against that: edit the table. "
         "-->\n" +
         pretrain_table().markdown();
}

}  // namespace braid::config
