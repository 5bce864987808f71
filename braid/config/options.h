// Every option of `braid pretrain`, with PaddleNLP's name and default if PaddleNLP has the option. Meanings,
// units and ranges are in the table in pretrain_table.cpp and in `braid pretrain --help`.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid::config {

struct PretrainOptions {
  // Model
  std::string model_type = "llama";
  std::string model_name_or_path;
  std::optional<std::string> tokenizer_name_or_path;
  bool continue_training = false;
  bool use_flash_attention = false;
  bool use_fused_rms_norm = false;
  bool use_fused_rope = false;
  bool fuse_attention_qkv = false;
  bool fuse_attention_ffn = false;

  // Model overrides: keys of config.json
  std::optional<int64_t> vocab_size;
  std::optional<int64_t> hidden_size;
  std::optional<int64_t> intermediate_size;
  std::optional<int64_t> num_hidden_layers;
  std::optional<int64_t> num_attention_heads;
  std::optional<int64_t> num_key_value_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> max_position_embeddings;
  std::optional<double> initializer_range;
  std::optional<double> rms_norm_eps;
  std::optional<double> rope_theta;
  std::optional<std::string> rope_scaling;
  std::optional<bool> tie_word_embeddings;
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> eos_token_id;
  std::optional<int64_t> pad_token_id;

  // Data
  std::string input_dir;
  std::string split = "949,50,1";
  int64_t max_seq_length = 1024;
  bool synthetic_data = false;
  std::optional<int64_t> data_seed;
  std::string data_impl = "mmap";
  int64_t dataloader_num_workers = 0;
  bool skip_warmup = true;
  std::optional<std::string> data_cache;
  bool share_folder = false;

  // Batch
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;

  // Optimizer
  std::string optim = "adamw";
  double learning_rate = 5e-5;
  double min_learning_rate = 1e-5;
  std::string lr_scheduler_type = "linear";
  double warmup_ratio = 0.0;
  int64_t warmup_steps = 0;
  std::optional<int64_t> decay_steps;
  double weight_decay = 0.0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;

  // Precision
  bool bf16 = false;
  bool fp16 = false;
  std::string fp16_opt_level = "O1";
  bool amp_master_grad = false;
  double scale_loss = 32768.0;

  // Parallel
  std::optional<std::string> strategy;
  int64_t data_parallel_degree = -1;
  int64_t pipeline_parallel_degree = -1;
  std::string pipeline_schedule_mode = "1F1B";
  bool enable_send_recv_overlap = false;
  std::string pipeline_parallel_config;
  int64_t virtual_pp_degree = 1;
  std::optional<std::string> schedule_times;
  std::optional<std::string> schedule_mp_exchange;
  std::optional<int64_t> schedule_memory_limit;
  std::string virtual_pipeline_seg_method = "LlamaDecoderLayerAuto";
  int64_t tensor_parallel_degree = -1;
  std::string tensor_parallel_config;
  bool sequence_parallel = false;
  std::string sharding;
  int64_t sharding_parallel_degree = -1;
  std::string sharding_parallel_config;
  std::optional<std::string> sharding_reduce;
  std::optional<std::string> offload_dir;
  int64_t sep_parallel_degree = -1;
  int64_t context_parallel_degree = -1;
  std::string hybrid_parallel_topo_order = "pp_first";
  bool enable_auto_parallel = false;
  double segment_broadcast_mb = 32;
  std::string segment_anchors;

  // Memory
  bool recompute = false;
  std::string recompute_granularity = "full";
  std::string refined_recompute;
  std::vector<int64_t> no_recompute_layers;
  int64_t pp_recompute_interval = 1;
  bool early_weight_gradients = false;

  // Run
  bool do_train = false;
  bool do_eval = false;
  bool do_predict = false;
  int64_t max_steps = -1;
  std::optional<int64_t> eval_steps;
  int64_t eval_iters = 10;
  int64_t seed = 42;
  std::string device = "cpu";
  int64_t num_threads = 0;
  std::string dry_run = "0";
  int64_t ranks_per_node = 8;
  std::chrono::seconds dist_timeout{300};

  // Output
  std::string output_dir;
  bool overwrite_output_dir = false;
  int64_t logging_steps = 500;
  std::optional<std::string> profile_steps;
  bool disable_tqdm = false;
  std::vector<std::string> report_to;
  std::optional<std::string> logging_dir;
  std::optional<std::string> run_name;
  std::string log_format = "auto";
  bool skip_memory_metrics = true;
  bool skip_export = false;
  std::optional<int64_t> save_steps;
  std::optional<std::string> save_strategy;
  std::optional<int64_t> save_total_limit;
  bool unified_checkpoint = false;
  std::optional<std::string> resume_from_checkpoint;
  bool ignore_data_skip = false;

  bool operator==(const PretrainOptions&) const = default;
};

}  // namespace braid::config
