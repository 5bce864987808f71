#include "braid/config/pretrain.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/config/config_words.h"
#include "braid/config/error_list.h"
#include "braid/config/file_value.h"
#include "braid/config/given_options.h"
#include "braid/config/mesh_options.h"
#include "braid/config/model_config_json.h"
#include "braid/config/presets.h"
#include "braid/config/pretrain_table.h"
#include "braid/config/strategy_file.h"
#include "braid/schedule/generators/generate.h"

namespace braid::config {
namespace {

bool profiles_after(const PretrainOptions& options, int64_t last_step) {
  return options.profile_steps && profiled_steps(*options.profile_steps)[0] > last_step;
}

// Notes given options that depend on another one, which is off.
void note_unused(const PretrainOptions& options, const mesh::MeshShape& mesh,
                 std::span<const Assignment> given, std::vector<std::string>& notes) {
  const auto note = [&](bool unused, std::initializer_list<const char*> names, const char* reason,
                        const char* beginning = " has no effect: ") {
    if (!unused) return;
    for (const char* name : names) {
      const auto found =
          std::find_if(given.rbegin(), given.rend(), [&](const Assignment& a) { return a.name == name; });
      if (found != given.rend()) notes.push_back(cat(found->label, beginning, reason));
    }
  };
  const bool is_constant = options.lr_scheduler_type.starts_with("constant");
  note(!options.do_eval, {"eval_steps", "eval_iters", "per_device_eval_batch_size"}, "do_eval is off");
  note(is_constant, {"decay_steps", "min_learning_rate"}, "the learning rate is constant");
  note(options.synthetic_data, {"input_dir", "split"}, "synthetic_data is on");
  note(options.warmup_steps > 0, {"warmup_ratio"}, "warmup_steps takes precedence");
  note(options.continue_training, {"initializer_range"}, "the weights come from model_name_or_path");
  note(pipeline_ranks(options) == 1, {"enable_send_recv_overlap"},
       "the pipeline has one rank, so it has no messages");
  note(options.dry_run != "svg", {"ranks_per_node"}, "only dry_run svg draws nodes");
  note(is_dry_run(options), {"profile_steps"}, "a dry run takes no steps");
  note(!options.do_train && !is_dry_run(options), {"profile_steps", "schedule_memory_limit"},
       "do_train is off");
  note(options.do_train && profiles_after(options, options.max_steps), {"profile_steps"},
       "the run ends at max_steps, before the first of them");

  const bool shards = !options.sharding.empty();
  const bool offloads = offloads_optimizer(options);
  note(shards && mesh.sharding == 1 && !offloads, {"sharding"},
       "the sharding degree is 1, so there is nothing to divide");
  note(shards && mesh.sharding == 1 && offloads, {"sharding"},
       "the sharding degree is 1, so there is nothing to divide", " only offloads the optimizer: ");
  note(mesh.sharding == 1, {"sharding_reduce"}, "the sharding degree is 1, so there is nothing to reduce");
  note(!shards && options.sharding_parallel_degree > 1, {"sharding_parallel_degree"},
       "sharding names no stage, so these ranks are replicas");
  note(!offloads, {"offload_dir"}, "sharding does not say offload");
  note(!options.segment_anchors.empty(), {"segment_broadcast_mb"}, "segment_anchors takes precedence");
  note(!options.recompute, {"recompute_granularity", "no_recompute_layers", "pp_recompute_interval"},
       "recompute is off");
  note(!options.fp16, {"scale_loss"}, "fp16 is off");
  note(!options.do_train && !is_dry_run(options),
       {"max_steps", "learning_rate", "min_learning_rate", "lr_scheduler_type", "warmup_steps",
        "warmup_ratio", "decay_steps", "weight_decay", "max_grad_norm", "skip_export"},
       "do_train is off");
  const bool is_cut = options.do_train && options.decay_steps.value_or(0) > options.max_steps;
  note(is_cut && !is_constant, {"decay_steps"},
       "the run ends at max_steps, before the learning rate reaches its minimum", " is not reached: ");
  const bool is_raised = !options.continue_training && options.max_position_embeddings &&
                         *options.max_position_embeddings < options.max_seq_length;
  note(is_raised, {"max_position_embeddings"}, "the model needs max_seq_length positions", " is raised: ");
  note(!options.fp16 && !options.bf16, {"fp16_opt_level"}, "fp16 and bf16 are off: everything is float32");
  note(options.fp16 || options.bf16, {"fp16_opt_level"}, "O1 and O2 are the same (see --help)");
}

// The last value given for the option `name`, which has no alias.
std::optional<std::string> last_value(std::span<const Assignment> given, std::string_view name) {
  const auto found = std::find_if(given.rbegin(), given.rend(),
                                  [&](const Assignment& assignment) { return assignment.name == name; });
  if (found == given.rend() || found->values.empty()) return std::nullopt;
  return found->values.front();
}

void validate_sources(const PretrainOptions& options) {
  ErrorList errors;
  errors.check(!options.model_name_or_path.empty(),
               "--model_name_or_path is required: a directory with config.json, or a preset such as "
               "braid/llama-10m");
  std::array<double, 3> weights = {1, 1, 1};
  errors.attempt([&] { weights = split_weights(options.split); });
  if (!is_dry_run(options)) {  // which reads no data and writes no files
    errors.check(!options.output_dir.empty(), "--output_dir is required: the directory for the run's files");
    errors.check(options.synthetic_data || !options.input_dir.empty(),
                 "--input_dir is required: a directory of .bin/.idx files or the prefix of one "
                 "(`braid data prepare` creates them), or --synthetic_data 1 for random tokens");
    const bool reads = !options.synthetic_data;
    errors.check(!reads || !options.do_train || weights[0] > 0,
                 "--do_train needs a training set, but --split is ", options.split);
    errors.check(!reads || !options.do_eval || weights[1] > 0,
                 "--do_eval needs a validation set, but --split is ", options.split);
  }
  errors.throw_if_any();
}

// Rejects shapes that the schedule does not support before any rank starts.
void validate_schedule(const PretrainOptions& options) {
  require<ConfigError>(options.gradient_accumulation_steps <= std::numeric_limits<int32_t>::max() &&
                           pipeline_ranks(options) <= std::numeric_limits<int32_t>::max(),
                       "--gradient_accumulation_steps ", options.gradient_accumulation_steps,
                       " or --pipeline_parallel_degree ", pipeline_ranks(options), " is too large");
  schedule::PipelineShape shape = {.ranks = static_cast<int32_t>(pipeline_ranks(options)),
                                   .chunks_per_rank = static_cast<int32_t>(pipeline_chunks(options)),
                                   .microbatches = static_cast<int32_t>(options.gradient_accumulation_steps)};
  if (const auto file = schedule_file(options)) {
    require<ConfigError>(options.virtual_pp_degree == 1, "--virtual_pp_degree ", options.virtual_pp_degree,
                         " and --pipeline_schedule_mode csv:", *file,
                         " conflict: the file defines the number of chunks per rank");
    return;
  }
  // Schedules that depend on times are generated later, once those are known; they allow any number of
  // microbatches.
  const schedule::Mode& mode = schedule::mode_of(options.pipeline_schedule_mode);
  if (mode.arranges_for_times) shape.microbatches = 1;
  schedule::generate(mode.name, shape);
}

void validate_learning_rate(const PretrainOptions& options) {
  const std::string& curve = options.lr_scheduler_type;
  const bool has_warmup = options.warmup_steps > 0 || options.warmup_ratio > 0;
  require<ConfigError>(curve != "constant" || !has_warmup,
                       "--lr_scheduler_type constant has no warm-up, but warmup_steps is ",
                       options.warmup_steps, " and warmup_ratio ", to_text(options.warmup_ratio),
                       "; use constant_with_warmup");
  if (curve == "constant") return;
  require<ConfigError>(warmup_steps(options) <= static_cast<double>(decay_steps(options)), "the warm-up of ",
                       to_text(warmup_steps(options)), " steps must end before the decay does, at step ",
                       decay_steps(options), " (--warmup_steps, --warmup_ratio, --decay_steps, --max_steps)");
  require<ConfigError>(curve == "constant_with_warmup" || options.min_learning_rate <= options.learning_rate,
                       "--min_learning_rate must not exceed --learning_rate, got ",
                       to_text(options.min_learning_rate), " and ", to_text(options.learning_rate));
}

template <typename Value>
void override_with(const std::optional<Value>& given, Value& field) {
  if (given) field = *given;
}

void apply_overrides(const PretrainOptions& options, ModelConfig& config) {
  // Derived sizes stay derived from the overridden ones.
  const bool one_kv_each = config.num_key_value_heads == config.num_attention_heads;
  const bool even_heads = config.head_dim * config.num_attention_heads == config.hidden_size;
  override_with(options.vocab_size, config.vocab_size);
  override_with(options.hidden_size, config.hidden_size);
  override_with(options.intermediate_size, config.intermediate_size);
  override_with(options.num_hidden_layers, config.num_hidden_layers);
  override_with(options.num_attention_heads, config.num_attention_heads);
  if (one_kv_each) config.num_key_value_heads = config.num_attention_heads;
  override_with(options.num_key_value_heads, config.num_key_value_heads);
  if (even_heads && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  override_with(options.head_dim, config.head_dim);
  override_with(options.max_position_embeddings, config.max_position_embeddings);
  override_with(options.initializer_range, config.initializer_range);
  override_with(options.rms_norm_eps, config.rms_norm_eps);
  override_with(options.rope_theta, config.rope_theta);
  if (options.rope_scaling) {
    config.rope_scaling = rope_scaling_from_json(*options.rope_scaling, "--rope_scaling");
  }
  override_with(options.tie_word_embeddings, config.tie_word_embeddings);
  if (options.bos_token_id) config.bos_token_id = options.bos_token_id;
  if (options.eos_token_id) config.eos_token_id = {*options.eos_token_id};
  if (options.pad_token_id) config.pad_token_id = options.pad_token_id;
}

// Weights to continue from determine the size of every tensor.
void require_same_shapes(const ModelConfig& loaded, const ModelConfig& requested) {
  const auto same = [](const char* name, int64_t existing, int64_t wanted) {
    require<ConfigError>(existing == wanted, "--", name, " ", wanted,
                         " conflicts with the weights of --model_name_or_path, which have ", existing,
                         "; omit it, or train from scratch with --continue_training 0");
  };
  same("vocab_size", loaded.vocab_size, requested.vocab_size);
  same("hidden_size", loaded.hidden_size, requested.hidden_size);
  same("intermediate_size", loaded.intermediate_size, requested.intermediate_size);
  same("num_hidden_layers", loaded.num_hidden_layers, requested.num_hidden_layers);
  same("num_attention_heads", loaded.num_attention_heads, requested.num_attention_heads);
  same("num_key_value_heads", loaded.num_key_value_heads, requested.num_key_value_heads);
  same("head_dim", loaded.head_dim, requested.head_dim);
  same("tie_word_embeddings", loaded.tie_word_embeddings, requested.tie_word_embeddings);
}

// What the options ask for and the run will not do, although its result is the same.
void add_warnings(PretrainCommand& command) {
  const PretrainOptions& options = command.options;
  constexpr int64_t kPaddleNlpsDefault = 500;
  const bool is_asked =
      options.save_strategy ? *options.save_strategy == "steps" : options.save_steps.has_value();
  const int64_t steps = options.save_steps.value_or(kPaddleNlpsDefault);
  if (is_asked && options.do_train && steps <= options.max_steps) {
    command.notes.push_back(
        cat("WARNING: no checkpoints are written, although --save_steps ", steps, " asks for one every ",
            counted(steps, "step"),
            ": this version of braid writes only the final model, to <output_dir>/hf, and a "
            "run that is killed has to start anew"));
  }
  if (options.do_predict) {
    command.notes.emplace_back(
        "WARNING: the test set is not evaluated, although --do_predict 1 asks for it: this version of braid "
        "evaluates on the validation set (--do_eval)");
  }
}

// One line for all options that cannot matter here, with the reason if it is a single one.
void add_summary(const std::vector<NoEffect>& unused, std::vector<std::string>& notes) {
  if (unused.size() <= 1) {
    for (std::string& note : notes_of(unused)) notes.push_back(std::move(note));
    return;
  }
  std::string names;
  for (const NoEffect& one : unused) names += (names.empty() ? "" : ", ") + one.label;
  notes.push_back(cat("without effect here (braid pretrain --help NAME says why): ", names));
}

}  // namespace

PretrainCommand parse_pretrain(std::span<const std::string> arguments, std::optional<int64_t> world_size) {
  const OptionTable<PretrainOptions> table = pretrain_table();
  ErrorList errors;
  GivenOptions all_given = given_options(arguments, table.specs(), errors);
  const std::vector<Assignment>& given = all_given.assignments;
  std::vector<NoEffect> unused = std::move(all_given.unused);
  const bool plans_only = last_value(given, "dry_run").value_or("0") != "0";
  if (plans_only && world_size == 1) world_size.reset();

  // The file of the strategy comes first, so that options given beside it take precedence.
  PretrainCommand command;
  StrategyFile strategy;
  const bool is_complete = errors.attempt([&] {
    if (const auto path = last_value(given, "strategy")) {
      strategy = translate_strategy(read_file_value(*path), *path, given, world_size);
    }
  });
  command.notes = std::move(strategy.notes);
  std::vector<Assignment> all = std::move(strategy.assignments);
  all.insert(all.end(), given.begin(), given.end());
  const std::vector<NoEffect> without_effect = table.apply(command.options, all, errors);
  unused.insert(unused.end(), without_effect.begin(), without_effect.end());
  errors.attempt([&] { apply_config_words(command.options, unused); });
  if (is_complete && all_given.is_complete) {
    attempt_unexplained(errors, [&] {
      validate(command.options);
      command.run = run_options(command.options, world_size);
    });
  }
  errors.throw_if_any();

  add_warnings(command);
  add_summary(unused, command.notes);
  note_unused(command.options, command.run.strategy.mesh, given, command.notes);
  return command;
}

void validate(const PretrainOptions& options) {
  ErrorList errors;
  errors.attempt([&] { pretrain_table().check(options); });
  if (!is_dry_run(options)) {
    errors.check(options.do_train || options.do_eval, "nothing to do: pass --do_train, --do_eval or both");
    errors.check(!options.do_train || options.max_steps >= 1,
                 "--max_steps is required with --do_train: the number of optimizer steps");
  }
  errors.attempt([&] { validate_sources(options); });
  errors.attempt([&] { validate_schedule(options); });
  if (options.do_train && options.max_steps >= 1) {
    errors.attempt([&] { validate_learning_rate(options); });
  }
  errors.check(!options.bf16 || !options.fp16, "--bf16 1 and --fp16 1 conflict; omit one");
  for (const auto& [is_on, name] : {std::pair(options.bf16, "bf16"), std::pair(options.fp16, "fp16")}) {
    errors.check(!is_on || options.fp16_opt_level != "O0", "--", name,
                 " 1 and --fp16_opt_level O0 (everything in float32) conflict; omit one");
  }
  errors.check(!options.sequence_parallel || options.tensor_parallel_degree > 1,
               "--sequence_parallel 1 divides the sequence over the ranks of --tensor_parallel_degree, which "
               "must be above 1, got ",
               options.tensor_parallel_degree);
  errors.throw_if_any();
}

bool is_dry_run(const PretrainOptions& options) { return options.dry_run != "0"; }

int64_t pipeline_ranks(const PretrainOptions& options) {
  return options.pipeline_parallel_degree == -1 ? 1 : options.pipeline_parallel_degree;
}

int64_t pipeline_chunks(const PretrainOptions& options) {
  if (schedule_file(options) || options.virtual_pp_degree != 1) return options.virtual_pp_degree;
  return schedule::mode_of(options.pipeline_schedule_mode).chunks.value_or(1);
}

std::optional<std::string> schedule_file(const PretrainOptions& options) {
  constexpr std::string_view kPrefix = "csv:";
  if (!options.pipeline_schedule_mode.starts_with(kPrefix)) return std::nullopt;
  return options.pipeline_schedule_mode.substr(kPrefix.size());
}

std::array<int64_t, 2> profiled_steps(std::string_view text) {
  const std::vector<std::string> pieces = split(text, ',');
  const auto first = parse_int(pieces.front());
  const auto last = parse_int(pieces.back());
  require<ConfigError>(pieces.size() == 2 && first && last && 1 <= *first && *first <= *last,
                       "--profile_steps must be two steps A,B with 1 <= A <= B, as in 10,12; got '", text,
                       "'");
  return {*first, *last};
}

double warmup_steps(const PretrainOptions& options) {
  if (options.lr_scheduler_type == "constant") return 0;
  if (options.warmup_steps > 0) return static_cast<double>(options.warmup_steps);
  return options.warmup_ratio * static_cast<double>(std::max<int64_t>(options.max_steps, 0));
}

int64_t decay_steps(const PretrainOptions& options) {
  return options.decay_steps.value_or(options.max_steps);
}

int64_t data_seed(const PretrainOptions& options) { return options.data_seed.value_or(options.seed); }

std::array<double, 3> split_weights(std::string_view text) {
  const char separator = text.find('/') == text.npos ? ',' : '/';
  const std::vector<std::string> pieces = split(text, separator);
  std::array<double, 3> weights{};
  bool good = pieces.size() <= weights.size();
  double sum = 0;
  for (size_t i = 0; good && i < pieces.size(); ++i) {
    const auto weight = parse_double(trim(pieces[i]));
    good = weight && std::isfinite(*weight) && *weight >= 0;
    if (good) sum += weights[i] = *weight;
  }
  require<ConfigError>(
      good && sum > 0 && std::isfinite(sum),
      "--split must be 1 to 3 numbers, not negative and not all 0, separated by , or /, got '", text, "'");
  for (double& weight : weights) weight /= sum;
  return weights;
}

ModelConfig resolve_model(const PretrainOptions& options, std::optional<int64_t> tokenizer_pieces) {
  const ModelConfig loaded = load_model_config(options.model_name_or_path);
  ModelConfig config = loaded;
  apply_overrides(options, config);
  if (options.continue_training) {
    require_same_shapes(loaded, config);
    require<ConfigError>(
        std::filesystem::is_directory(options.model_name_or_path),
        "--continue_training 1 needs --model_name_or_path to be a directory with weights, got '",
        options.model_name_or_path, "'");
    require<ConfigError>(options.max_seq_length <= config.max_position_embeddings, "--max_seq_length ",
                         options.max_seq_length, " is longer than the model's max_position_embeddings, ",
                         config.max_position_embeddings, "; shorten it, or raise --max_position_embeddings");
  } else {
    config.max_position_embeddings = std::max(config.max_position_embeddings, options.max_seq_length);
    if (tokenizer_pieces && !options.vocab_size) {
      config.vocab_size = std::max(config.vocab_size, (*tokenizer_pieces + 127) / 128 * 128);
    }
  }
  require<ConfigError>(!tokenizer_pieces || *tokenizer_pieces <= config.vocab_size, "the tokenizer has ",
                       tokenizer_pieces.value_or(0), " pieces, but the model's vocab_size is ",
                       config.vocab_size, ": raise --vocab_size or use the model's own tokenizer");
  validate(config);
  return config;
}

}  // namespace braid::config
