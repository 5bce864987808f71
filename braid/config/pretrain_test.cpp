#include "braid/config/pretrain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/config/option_file.h"

namespace braid::config {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// The minimum that a run needs, and `more`.
std::vector<std::string> with(const std::string& more) {
  std::vector<std::string> arguments = {"--model_name_or_path=braid/llama-tiny", "--input_dir=d",
                                        "--output_dir=o", "--do_train", "--max_steps=20"};
  for (const std::string& word : split(more, ' ')) {
    if (!word.empty()) arguments.push_back(word);
  }
  return arguments;
}

TEST(Pretrain, APaddleNlpScriptRunsUnchanged) {
  const PretrainCommand command = parse_pretrain(split(
      "--model_type llama --model_name_or_path facebook/llama-7b --tokenizer_name_or_path T --input_dir D "
      "--output_dir O --split 949,50,1 --max_seq_length 2048 --per_device_train_batch_size 1 "
      "--per_device_eval_batch_size 1 --gradient_accumulation_steps 16 --use_flash_attention 0 "
      "--use_fused_rms_norm 0 --fp16 0 --fp16_opt_level O2 --scale_loss 1024 --pipeline_parallel_degree 4 "
      "--tensor_parallel_degree 1 --pipeline_schedule_mode 1F1B --learning_rate 0.0001 --min_learning_rate "
      "0.00001 "
      "--max_steps 20 --save_steps 5000 --weight_decay 0.01 --warmup_ratio 0.01 --max_grad_norm 1.0 "
      "--logging_steps 1 --dataloader_num_workers 1 --eval_steps 1000 --report_to none --disable_tqdm true "
      "--continue_training 0 --recompute 0 --recompute_granularity full --do_train --do_eval --device cpu "
      "--data_impl mmap --enable_auto_parallel 1 --sharding_parallel_degree 1 --sharding stage1",
      ' '));
  const PretrainOptions expected{.model_name_or_path = "facebook/llama-7b",
                                 .tokenizer_name_or_path = "T",
                                 .input_dir = "D",
                                 .max_seq_length = 2048,
                                 .dataloader_num_workers = 1,
                                 .per_device_train_batch_size = 1,
                                 .per_device_eval_batch_size = 1,
                                 .gradient_accumulation_steps = 16,
                                 .learning_rate = 1e-4,
                                 .min_learning_rate = 1e-5,
                                 .warmup_ratio = 0.01,
                                 .weight_decay = 0.01,
                                 .fp16_opt_level = "O2",
                                 .scale_loss = 1024,
                                 .pipeline_parallel_degree = 4,
                                 .tensor_parallel_degree = 1,
                                 .sharding = "stage1",
                                 .sharding_parallel_degree = 1,
                                 .enable_auto_parallel = true,
                                 .do_train = true,
                                 .do_eval = true,
                                 .max_steps = 20,
                                 .eval_steps = 1000,
                                 .output_dir = "O",
                                 .logging_steps = 1,
                                 .disable_tqdm = true,
                                 .report_to = "none",
                                 .save_steps = 5000};
  EXPECT_EQ(command.options, expected);
  EXPECT_EQ(warmup_steps(command.options), 0.2);
  EXPECT_EQ(decay_steps(command.options), 20);
  EXPECT_EQ(command.run.strategy.mesh, (mesh::MeshShape{.pp = 4}));
  EXPECT_EQ(resolve_model(command.options), ModelConfig{});
  for (const char* name :
       {"use_flash_attention", "use_fused_rms_norm", "fp16_opt_level", "scale_loss", "save_steps",
        "dataloader_num_workers", "recompute_granularity", "enable_auto_parallel", "sharding"}) {
    EXPECT_THAT(command.notes, Contains(HasSubstr("--" + std::string(name) + " "))) << name;
  }
}

TEST(Pretrain, ErrorsNameTheOptionTheValueAndTheRemedy) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--sequence_parallel 1",
       "--sequence_parallel 1 divides the sequence over the ranks of --tensor_parallel_degree, which must be "
       "above 1, got -1"},
      {"--sharding stage4",
       "--sharding must be one of '', true, stage0, stage1, stage2, stage3, stage0 offload"},
      {"--sharding_reduce never", "--sharding_reduce must be one of step, microbatch, got 'never'"},
      {"--fp16 --bf16", "--bf16 1 and --fp16 1 conflict; omit one"},
      {"--fp16 --fp16_opt_level O0", "--fp16 1 and --fp16_opt_level O0 (everything in float32) conflict"},
      {"--scale_loss 0.5", "--scale_loss must be a number, >= 1, got '0.5'"},
      {"--recompute --recompute_granularity half",
       "--recompute_granularity must be one of full, full_attn, core_attn, auto, got 'half'"},
      {"--refined_recompute mlp_row_ln:0", "support recomputation by operator"},
      {"--pp_recompute_interval 2", "support recomputation of several layers together; use 1"},
      {"--no_recompute_layers -1", "--no_recompute_layers must be a whole number, >= 0, got '-1'"},
      {"--tensor_parallel_degree 65536 --data_parallel_degree 65536", "more than the maximum of 2147483647"},
      {"--pipeline_schedule_mode ZBH9", "there is no pipeline schedule mode \"ZBH9\": did you mean ZBH1?"},
      {"--virtual_pp_degree 2", "1F1B runs with 1 chunk per rank, got 2"},
      {"--pipeline_schedule_mode ZBVPP --virtual_pp_degree 3", "ZBVPP runs with 2 chunks per rank, got 3"},
      {"--pipeline_schedule_mode csv:x --virtual_pp_degree 3",
       "the file defines the number of chunks per rank"},
      {"--schedule_times 1,2",
       "--schedule_times must be 3 numbers (F,I,W) or 4 (F,I,W,MESSAGE), got 2: '1,2'"},
      {"--early_weight_gradients --sharding stage2 --sharding_parallel_degree 2",
       "--early_weight_gradients adds up gradients of several microbatches at a time"},
      {"--schedule_mp_exchange 1,1",
       "--schedule_mp_exchange is a part of --schedule_times, which is not set"},
      {"--schedule_times 1,1,1 --schedule_mp_exchange 1,1",
       "--schedule_mp_exchange is what tensor-parallel groups take, and --tensor_parallel_degree is 1"},
      {"--tensor_parallel_degree 2 --schedule_times 1,1,1 --schedule_mp_exchange 1,2",
       "--schedule_mp_exchange are parts of F and I, and must not be larger than these; got '1,2'"},
      {"--schedule_memory_limit 0", "--schedule_memory_limit"},
      {"--profile_steps 3,2",
       "--profile_steps must be two steps A,B with 1 <= A <= B, as in 10,12; got '3,2'"},
      {"--sep_parallel_degree 2", "support segment parallelism"},
      {"--context_parallel_degree 2", "support context parallelism"},
      {"--hybrid_parallel_topo_order sharding_first", "support other rank orders"},
      {"--report_to wandb", "support destinations for metrics other than"},
      {"--resume_from_checkpoint x", "support resuming from checkpoints"},
      {"--save_strategy epoch", "support checkpoints by epochs; use no or steps"},
      {"--pipeline_parallel_config use_dualpipev",
       "--pipeline_parallel_config use_dualpipev: this version of braid does not support it: use "
       "--pipeline_schedule_mode DualPipeV"},
      {"--hidden_dropout_prob 0.1",
       "--hidden_dropout_prob 0.1: this version of braid does not support dropout"},
      {"--lora 1", "does not support training of adapters"},
      {"--amp_custom_black_list reduce_sum tanh", "--amp_custom_black_list tanh: this version"},
      {"--lr 1", "--lr: there is no such option; it is called learning_rate here"},
      {"--train-iters 1", "--train-iters: there is no such option; it is called max_steps here"},
      {"--micro-batch-size 1", "it is called per_device_train_batch_size here"},
      {"--seq-length 1", "it is called max_seq_length here"},
      {"--tensor-model-parallel-size 1", "it is called tensor_parallel_degree here"},
      {"--pipeline-model-parallel-size 1", "it is called pipeline_parallel_degree here"},
      {"--batch_size 1", "it is called per_device_train_batch_size here"},
      {"--lr_scheduler_type cosin", "got 'cosin'; did you mean cosine?"},
      {"--learning_rates 1", "--learning_rates: there is no such option; did you mean learning_rate?"},
      {"--max_steps=7", "--max_steps is given twice, as '20' and as '7'"},
      {"--bf16 --fp16_opt_level O0", "conflict; omit one"},
      {"--lr_scheduler_type constant --warmup_steps 5", "use constant_with_warmup"},
      {"--warmup_steps 21", "the warm-up of 21 steps must end before the decay does, at step 20"},
      {"--learning_rate 1e-6", "--min_learning_rate must not exceed --learning_rate, got 1e-05 and 1e-06"},
      {"--split 0,1,1", "--do_train needs a training set, but --split is 0,1,1"},
      {"--do_eval --split 1", "--do_eval needs a validation set"},
      {"--split 1,x", "--split must be 1 to 3 numbers"},
      {"run.text",
       "unexpected argument 'run.text': options are given as --name value, and a FILE of options"},
      {"no-such.yaml", "no-such.yaml"},
  };
  for (const auto& [more, message] : cases) {
    EXPECT_THAT(error_of([&, &more = more] { parse_pretrain(with(more)); }), HasSubstr(message)) << more;
  }
}

TEST(Pretrain, MissingRequiredOptionsAreNamed) {
  const auto error_in = [](PretrainOptions options) { return error_of([&] { validate(options); }); };
  const PretrainOptions good{
      .model_name_or_path = "m", .input_dir = "d", .do_train = true, .max_steps = 5, .output_dir = "o"};
  EXPECT_EQ(error_in(good), "accepted");
  PretrainOptions options = good;
  options.do_train = false;
  EXPECT_THAT(error_in(options), HasSubstr("nothing to do"));
  options = good;
  options.max_steps = -1;
  EXPECT_THAT(error_in(options), HasSubstr("--max_steps is required"));
  options = good;
  options.model_name_or_path.clear();
  EXPECT_THAT(error_in(options), HasSubstr("--model_name_or_path is required"));
  options = good;
  options.output_dir.clear();
  EXPECT_THAT(error_in(options), HasSubstr("--output_dir is required"));
  options = good;
  options.input_dir.clear();
  EXPECT_THAT(error_in(options), HasSubstr("--input_dir is required"));
  options.synthetic_data = true;
  EXPECT_EQ(error_in(options), "accepted");
  options = good;
  options.max_seq_length = 0;
  EXPECT_THAT(error_in(options), HasSubstr("--max_seq_length must be a whole number, >= 1, got '0'"));
}

TEST(Pretrain, SettingsWithoutEffectAreNoted) {
  EXPECT_THAT(parse_pretrain(with("")).notes, IsEmpty());
  EXPECT_THAT(parse_pretrain(with("--eval_iters 3")).notes,
              ElementsAre("--eval_iters has no effect: do_eval is off"));
  EXPECT_THAT(parse_pretrain(with("--lr_scheduler_type constant --decay_steps 9")).notes,
              ElementsAre(HasSubstr("--decay_steps has no effect")));
  EXPECT_THAT(parse_pretrain(with("--synthetic_data")).notes,
              ElementsAre(HasSubstr("--input_dir has no effect")));
  EXPECT_THAT(parse_pretrain(with("--save_strategy no --save_steps 5")).notes,
              ElementsAre(HasSubstr("--save_steps 5 has no effect: this version writes no checkpoints")));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--sharding stage2", "--sharding has no effect: the sharding degree is 1"},
      {"--sharding=stage2_offload", "--sharding only offloads the optimizer: the sharding degree is 1"},
      {"--sharding_reduce step", "--sharding_reduce has no effect: the sharding degree is 1"},
      {"--sharding_parallel_degree 2", "--sharding_parallel_degree has no effect: sharding names no stage"},
      {"--offload_dir d", "--offload_dir has no effect: sharding does not say offload"},
      {"--segment_anchors a --segment_broadcast_MB 3", "has no effect: segment_anchors takes precedence"},
      {"--no_recompute_layers 1 2", "--no_recompute_layers has no effect: recompute is off"},
      {"--recompute_granularity full", "--recompute_granularity has no effect: recompute is off"},
      {"--scale_loss 2", "--scale_loss has no effect: fp16 is off"},
      {"--fp16_opt_level O1", "--fp16_opt_level has no effect: fp16 and bf16 are off: everything is float32"},
      {"--fp16 --fp16_opt_level O2", "--fp16_opt_level has no effect: O1 and O2 are the same"},
      {"--decay_steps 30", "--decay_steps is not reached: the run ends at max_steps"},
      {"--profile_steps 30,31", "--profile_steps has no effect: the run ends at max_steps"},
      {"--max_position_embeddings 16", "--max_position_embeddings is raised: the model needs max_seq_length"},
  };
  for (const auto& [more, note] : cases) {
    std::vector<std::string> arguments = with(more);
    std::replace(arguments.back().begin(), arguments.back().end(), '_',
                 arguments.back() == "--sharding=stage2_offload" ? ' ' : '_');
    EXPECT_THAT(parse_pretrain(arguments).notes, ElementsAre(HasSubstr(note))) << more;
  }
}

TEST(Pretrain, WhatCannotMatterIsNamedInOneLine) {
  const PretrainCommand command = parse_pretrain(
      with("--use_flash_attention 1 --distributed_dataloader 1 --tensor_parallel_config sync_param "
           "--unified_checkpoint 1 --ignore_load_lr_and_optim 0 --amp_custom_black_list reduce_sum softmax"));
  EXPECT_THAT(
      command.notes,
      ElementsAre("without effect here (braid pretrain --help NAME says why): --distributed_dataloader "
                  "1, --ignore_load_lr_and_optim 0, --amp_custom_black_list reduce_sum softmax, "
                  "--use_flash_attention 1, --unified_checkpoint 1, --tensor_parallel_config sync_param"));
}

TEST(Pretrain, CheckpointsAndTestsThatAreNotThereAreWarnedOf) {
  for (const char* asked : {"--save_steps 20", "--save_steps 5 --save_strategy steps"}) {
    EXPECT_THAT(parse_pretrain(with(asked)).notes, Contains(HasSubstr("WARNING: no checkpoints are written")))
        << asked;
  }
  for (const char* other :
       {"--save_steps 21", "--save_steps 5 --save_strategy no", "--save_strategy steps"}) {
    EXPECT_THAT(parse_pretrain(with(other)).notes, Not(Contains(HasSubstr("WARNING")))) << other;
  }
  EXPECT_THAT(parse_pretrain(with("--do_predict")).notes,
              ElementsAre(HasSubstr("WARNING: the test set is not evaluated")));
}

TEST(Pretrain, AllErrorsOfLineAndFileComeAtOnceWithoutTheirConsequences) {
  const ScratchDirectory directory;
  const std::string file = directory.write("run.json",
                                           "{\n\"max_stepps\": 10,\n\"seed\": -1,\n\"sharding_degree\": 2,\n"
                                           "\"sharding_parallel_degree\": 2,\n\"seed\": 3}");
  const std::string message = error_of([&] {
    parse_pretrain(std::vector<std::string>{"--model_name_or_path",
                                            "braid/llama-tiny",
                                            "--output_dir=o",
                                            "--do_train",
                                            "--max_steps",
                                            "x",
                                            "--bf16",
                                            "1",
                                            "--fp16",
                                            "1",
                                            "--lr",
                                            "3",
                                            "--split",
                                            "0,1",
                                            "--input_dir",
                                            file,
                                            "--lora",
                                            "1",
                                            "--split=1",
                                            file,
                                            "--input_dir"});
  });
  for (const char* part : {"run.json:2: max_stepps: there is no such option; did you mean max_steps?",
                           "run.json:3: seed must be", "run.json:5: sharding_parallel_degree is given twice",
                           "run.json:6: seed is given twice", "--max_steps must be a whole number",
                           "--bf16 1 and --fp16 1 conflict", "it is called learning_rate here",
                           "--lora 1: this version", "--split is given twice", "--input_dir needs a value"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, Not(HasSubstr("--max_steps is required"))) << "its value is wrong";
  EXPECT_THAT(message, testing::StartsWith("10 errors:\n"));
}

TEST(Pretrain, TheFileMayStandAnywhere) {
  const ScratchDirectory directory;
  const std::string file = directory.write("run.json", R"({"max_steps": 7, "segment_broadcast_MB": 3})");
  std::vector<std::string> arguments = with("");
  arguments.pop_back();
  arguments.push_back(file);
  EXPECT_EQ(parse_pretrain(arguments).options.max_steps, 7);
  arguments.push_back("--max-steps=9");
  EXPECT_EQ(parse_pretrain(arguments).options.max_steps, 9);
  arguments.push_back(file);
  EXPECT_THAT(error_of([&] { parse_pretrain(arguments); }), HasSubstr("options are read from one FILE"));
}

TEST(Pretrain, SchedulesHaveTheNamesOfOthersToo) {
  const auto mode = [](const std::string& name, const std::string& more = "") {
    return parse_pretrain(with("--pipeline_parallel_degree 2 --gradient_accumulation_steps 4 "
                               "--pipeline_schedule_mode " +
                               name + more))
        .options.pipeline_schedule_mode;
  };
  EXPECT_EQ(mode("GPipe"), "FThenB");
  EXPECT_EQ(mode("F-then-B"), "FThenB");
  EXPECT_EQ(mode("1f1b"), "1F1B");
  EXPECT_EQ(mode("zbv"), "ZBVPP");
  EXPECT_EQ(mode("dualpipev"), "DualPipeV");
  EXPECT_EQ(mode("zb-h1"), "ZBH1");
  EXPECT_EQ(mode("ScheduleInterleaved1F1B", " --virtual_pp_degree 2"), "VPP");
}

TEST(Pretrain, FlagsOverrideTheFile) {
  const ScratchDirectory directory;
  const std::string file = directory.write("run.json", R"({
    "model_name_or_path": "braid/llama-tiny", "input_dir": "d", "output_dir": "o", "do_train": true,
    "max_steps": 10, "num_hidden_layers": 7, "learning_rate": 0.001})");
  const PretrainOptions options =
      parse_pretrain(std::vector<std::string>{file, "--max_steps", "30", "--bf16"}).options;
  EXPECT_EQ(options.max_steps, 30);
  EXPECT_EQ(options.num_hidden_layers, 7);
  EXPECT_EQ(options.learning_rate, 0.001);
  EXPECT_TRUE(options.bf16);

  const std::string bad = directory.write("bad.json", "{\n\"max_step\": 10}");
  EXPECT_THAT(error_of([&] { parse_pretrain(std::vector<std::string>{bad}); }),
              HasSubstr("bad.json:2: max_step: there is no such option; did you mean max_steps?"));
  const std::string wrong = directory.write("wrong.json", "{\"max_steps\": \"many\"}");
  EXPECT_THAT(error_of([&] { parse_pretrain(std::vector<std::string>{wrong}); }),
              HasSubstr("wrong.json:1: max_steps must be a whole number, -1 or >= 1, got 'many'"));
  EXPECT_THAT(error_of([&] { parse_pretrain(std::vector<std::string>{"train"}); }),
              StartsWith("unexpected argument 'train': options are given as --name value, and a FILE"));
}

TEST(Pretrain, YamlAndJsonFilesAreEquivalent) {
  const ScratchDirectory directory;
  const std::string yaml = directory.write(
      "run.yaml",
      "model_name_or_path: llama-tiny\ninput_dir: d\noutput_dir: o\ndo_train: yes\nmax_steps: 10\n");
  if (!has_yaml()) {
    EXPECT_THAT(error_of([&] { parse_pretrain(std::vector<std::string>{yaml}); }),
                HasSubstr("BRAID_WITH_YAML"));
    return;
  }
  const std::string json = directory.write(
      "run.json",
      R"({"model_name_or_path": "llama-tiny", "input_dir": "d", "output_dir": "o", "do_train": true, "max_steps": 10})");
  EXPECT_EQ(parse_pretrain(std::vector<std::string>{yaml}).options,
            parse_pretrain(std::vector<std::string>{json}).options);
}

TEST(Pretrain, TheNumberOfRanksDecidesTheMesh) {
  const auto mesh = [](const std::string& more, std::optional<int64_t> world_size) {
    return parse_pretrain(with(more), world_size).run.strategy.mesh;
  };
  EXPECT_EQ(mesh("--pipeline_parallel_degree 2", 4), (mesh::MeshShape{.pp = 2, .dp = 2}));
  EXPECT_EQ(mesh("--pipeline_parallel_degree 2 --sharding stage2", 4),
            (mesh::MeshShape{.sharding = 2, .pp = 2}));
  EXPECT_THAT(error_of([&] { mesh("--pipeline_parallel_degree 3", 4); }),
              HasSubstr("pipeline_parallel_degree 3 x data_parallel_degree -1 (inferred) = 3 times what is "
                        "inferred must be the number of ranks, got 4"));
  // A dry run without a launcher plans for any number of ranks, with one it checks.
  EXPECT_EQ(mesh("--pipeline_parallel_degree 3 --dry_run 1", 1), (mesh::MeshShape{.pp = 3}));
  EXPECT_THAT(error_of([&] { mesh("--pipeline_parallel_degree 3 --dry_run 1", 4); }), HasSubstr("got 4"));
  EXPECT_THAT(error_of([&] { mesh("--pipeline_parallel_degree 3", 1); }), HasSubstr("got 1"));
}

TEST(Pretrain, ErrorsOfOptionsThatContradictComeAtOnce) {
  EXPECT_THAT(
      error_of([] { parse_pretrain(with("--fp16 --bf16 --split 0,1 --sequence_parallel")); }),
      testing::AllOf(testing::StartsWith("3 errors:"), HasSubstr("\n  --do_train needs a training set"),
                     HasSubstr("\n  --bf16 1 and --fp16 1 conflict"),
                     HasSubstr("\n  --sequence_parallel 1 divides")));
}

TEST(Pretrain, WarmupSeedsAndSplit) {
  EXPECT_EQ(warmup_steps({.warmup_ratio = 0.5, .max_steps = 100}), 50);
  EXPECT_EQ(warmup_steps({.warmup_ratio = 0.5, .warmup_steps = 3, .max_steps = 100}), 3);
  EXPECT_EQ(warmup_steps({.lr_scheduler_type = "constant", .warmup_ratio = 0.5, .max_steps = 100}), 0);
  EXPECT_EQ(decay_steps({.decay_steps = 7, .max_steps = 100}), 7);
  EXPECT_EQ(data_seed({}), 42);
  EXPECT_EQ(data_seed({.data_seed = 5}), 5);
  EXPECT_THAT(split_weights("3/1"), ElementsAre(0.75, 0.25, 0));
  EXPECT_THAT(split_weights("2"), ElementsAre(1, 0, 0));
  for (const char* text : {"", "0,0,0", "1,2,3,4", "1,-1", "1,,1", "nan", "inf", "1;2", "1,2/3"}) {
    EXPECT_THROW(split_weights(text), ConfigError) << text;
  }
}

TEST(ResolveModel, OverridesUpdateDerivedSizes) {
  const ModelConfig config = resolve_model({.model_name_or_path = "llama-7b",
                                            .vocab_size = 100,
                                            .hidden_size = 96,
                                            .num_hidden_layers = 2,
                                            .num_attention_heads = 6,
                                            .rope_scaling = R"({"rope_type": "linear", "factor": 2})",
                                            .tie_word_embeddings = true,
                                            .eos_token_id = 9,
                                            .max_seq_length = 16});
  EXPECT_EQ(config.vocab_size, 100);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_key_value_heads, 6);
  EXPECT_EQ(config.rope_scaling.factor, 2);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.eos_token_id, (std::vector<int64_t>{9}));
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_THROW(resolve_model({.model_name_or_path = "llama-7b", .num_attention_heads = 5}), ConfigError);
}

TEST(ResolveModel, AModelFromScratchFitsTheDataAndTheTokenizer) {
  const PretrainOptions options{.model_name_or_path = "llama-tiny", .max_seq_length = 300};
  EXPECT_EQ(resolve_model(options, 1000).vocab_size, 1024);
  EXPECT_EQ(resolve_model(options, 1025).vocab_size, 1152);
  EXPECT_EQ(resolve_model(options).max_position_embeddings, 300);
  PretrainOptions small = options;
  small.vocab_size = 500;
  EXPECT_EQ(resolve_model(small, 500).vocab_size, 500);
  EXPECT_THAT(error_of([&] { resolve_model(small, 501); }),
              HasSubstr("the tokenizer has 501 pieces, but the model's vocab_size is 500"));
}

TEST(ResolveModel, WeightsToContinueFromDetermineTheShapes) {
  const ScratchDirectory directory;
  directory.write("m/config.json",
                  R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 256,
                      "max_position_embeddings": 128})");
  PretrainOptions options{
      .model_name_or_path = directory.file("m"), .continue_training = true, .max_seq_length = 128};
  EXPECT_EQ(resolve_model(options, 200).vocab_size, 256);
  EXPECT_THAT(error_of([&] { resolve_model(options, 300); }), HasSubstr("the tokenizer has 300 pieces"));
  options.hidden_size = 64;
  options.rms_norm_eps = 1e-5;
  EXPECT_EQ(resolve_model(options).rms_norm_eps, 1e-5);
  options.hidden_size = 128;
  EXPECT_THAT(
      error_of([&] { resolve_model(options); }),
      HasSubstr("--hidden_size 128 conflicts with the weights of --model_name_or_path, which have 64"));
  options.hidden_size.reset();
  options.max_seq_length = 129;
  EXPECT_THAT(error_of([&] { resolve_model(options); }), HasSubstr("--max_seq_length 129 is longer than"));
  EXPECT_THAT(error_of([] { resolve_model({.model_name_or_path = "llama-7b", .continue_training = true}); }),
              HasSubstr("to be a directory with weights, got 'llama-7b'"));
}

}  // namespace
}  // namespace braid::config
