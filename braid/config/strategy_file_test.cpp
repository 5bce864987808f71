#include "braid/config/strategy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/config/error_list.h"
#include "braid/config/pretrain.h"

namespace braid::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The arguments of a run with the strategy in `path` (JSON works in every build), and `more`, split at spaces
// except between single quotes.
std::vector<std::string> arguments_with(const std::string& path, const std::string& more) {
  std::vector<std::string> arguments = {"--model_name_or_path=braid/llama-tiny", "--synthetic_data",
                                        "--output_dir=o", "--do_train", "--max_steps=20"};
  if (!path.empty()) arguments.push_back("--strategy=" + path);
  bool quoted = false;
  for (const std::string& piece : split(more, '\'')) {
    if (quoted) {
      arguments.back() += piece;
    } else {
      for (const std::string& word : split(piece, ' ')) {
        if (!word.empty()) arguments.push_back(word);
      }
    }
    quoted = !quoted;
  }
  return arguments;
}

class StrategyFileTest : public testing::Test {
 protected:
  PretrainCommand parse(const std::string& json, const std::string& more = "",
                        std::optional<int64_t> world_size = std::nullopt) {
    return parse_pretrain(arguments_with(directory_.write("s.json", json), more), world_size);
  }

  // What parse throws, without the directory.
  std::string error_of(const std::string& json, const std::string& more = "",
                       std::optional<int64_t> world_size = std::nullopt) {
    try {
      parse(json, more, world_size);
    } catch (const ConfigError& error) {
      return without_directory(error.what());
    }
    return "accepted";
  }

  std::vector<std::string> notes_of(const std::string& json, const std::string& more = "") {
    std::vector<std::string> notes = parse(json, more).notes;
    for (std::string& note : notes) note = without_directory(note);
    return notes;
  }

  std::string without_directory(std::string text) const {
    const std::string prefix = directory_.path().string() + "/";
    for (size_t at = text.find(prefix); at != text.npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }

  ScratchDirectory directory_;
};

constexpr const char* kAllThree = R"({
  "sharding": true,
  "pipeline": true,
  "sharding_configs": {
    "segment_broadcast_MB": 16.0,
    "sharding_degree": 4, "mp_degree": 2, "pp_degree": 4, "dp_degree": 1,
    "stage": 2,
    "optimize_offload": true
  },
  "pipeline_configs": {"schedule_mode": "1F1B", "micro_batch_size": 1, "accumulate_steps": 8,
                       "enable_send_recv_overlap": true}
})";

TEST_F(StrategyFileTest, FlagsFileAndAggregateGiveTheSameRun) {
  const PretrainCommand file = parse(kAllThree, "", 32);
  EXPECT_THAT(file.notes, IsEmpty());
  const braid::Strategy aggregate = {.mesh = {.mp = 2, .sharding = 4, .pp = 4},
                                     .sharding_stage = 2,
                                     .offloads_optimizer = true,
                                     .receives = schedule::ReceivePosting::kEarly,
                                     .segment_bytes = int64_t{16} << 20};
  EXPECT_EQ(file.run.strategy, aggregate);
  EXPECT_EQ(file.run.training.microbatches, 8);
  EXPECT_EQ(file.run.training.microbatch_sequences, 1);
  const PretrainCommand flags = parse_pretrain(
      arguments_with("",
                     "--tensor_parallel_degree 2 --sharding_parallel_degree 4 --pipeline_parallel_degree 4 "
                     "--sharding '=stage2 offload' --segment_broadcast_MB 16 --pipeline_schedule_mode 1F1B "
                     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 "
                     "--enable_send_recv_overlap"),
      32);
  EXPECT_EQ(file.run, flags.run);
}

TEST_F(StrategyFileTest, DefaultsArePaddles) {
  EXPECT_EQ(parse("{}").run.strategy, Strategy{});
  EXPECT_EQ(parse(R"({"sharding": true})").run.strategy, (Strategy{.mesh = {.sharding = 8}}));
  const PretrainCommand pipeline = parse(R"({"pipeline": true, "sharding_configs": {"pp_degree": 3}})");
  EXPECT_EQ(pipeline.run.strategy, (Strategy{.mesh = {.pp = 3}}));
  EXPECT_EQ(pipeline.run.training.microbatch_sequences, 1);
  EXPECT_EQ(pipeline.run.training.microbatches, 1);
  EXPECT_EQ(parse(R"({"sharding_configs": null})").run.strategy, Strategy{});
}

TEST_F(StrategyFileTest, EachStrandSwitchesOnAndOffAlone) {
  for (int bits = 0; bits < 32; ++bits) {
    const bool mp = bits & 1, sharding = bits & 2, pp = bits & 4, dp = bits & 8, offload = bits & 16;
    const auto word = [](bool on) { return on ? "true" : "false"; };
    const std::string json =
        cat(R"({"sharding": )", word(sharding), R"(, "pipeline": )", word(pp),
            R"(, "sharding_configs": {"sharding_degree": 3, "mp_degree": )", mp ? 2 : 1, R"(, "pp_degree": )",
            pp ? 4 : 1, R"(, "dp_degree": )", dp ? 5 : 1, R"(, "optimize_offload": )", word(offload), "}}");
    Strategy expected;
    if (mp) expected.mesh.mp = 2;
    if (sharding) expected.mesh.sharding = 3;
    if (pp) expected.mesh.pp = 4;
    if (dp) expected.mesh.dp = 5;
    expected.offloads_optimizer = offload;
    const PretrainCommand command = parse(json, "", expected.mesh.world_size());
    EXPECT_EQ(command.run.strategy, expected) << json;
    if (sharding) {
      EXPECT_THAT(command.notes, IsEmpty()) << json;
    } else {
      EXPECT_THAT(command.notes, ElementsAre(HasSubstr("sharding_degree has no effect: sharding is false")));
    }
  }
}

TEST_F(StrategyFileTest, SchedulesHavePaddlesNamesToo) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"F-then-B", "FThenB"}, {"FThenB", "FThenB"}, {"1F1B", "1F1B"}, {"Eager1F1B", "Eager1F1B"},
      {"ZBH1", "ZBH1"},       {"ZBVPP", "ZBVPP"},   {"VPP", "VPP"},   {"DualPipeV", "DualPipeV"}};
  for (const auto& [written, meant] : names) {
    const std::string json = R"({"pipeline": true, "sharding_configs": {"pp_degree": 2}, "pipeline_configs":
        {"accumulate_steps": 4, "schedule_mode": ")" +
                             written + "\"}}";
    const Strategy strategy = parse(json, written == "VPP" ? "--virtual_pp_degree 2" : "").run.strategy;
    EXPECT_EQ(strategy.schedule_mode, meant);
    EXPECT_EQ(strategy.chunks_per_rank, meant == "VPP" || meant == "ZBVPP" || meant == "DualPipeV" ? 2 : 1);
  }
}

TEST_F(StrategyFileTest, BuffersBeginBySizeOrAtAnchors) {
  EXPECT_EQ(parse(R"({"sharding_configs": {"segment_broadcast_MB": 0.5}})").run.strategy.segment_bytes,
            1 << 19);
  const std::string anchors = R"({"sharding_configs": {"sharding_segment_strategy": "segment_anchors",
      "segment_anchors": ["model.layers.1.self_attn", "model.layers.3.mlp"])";
  EXPECT_THAT(parse(anchors + "}}").run.strategy.segment_anchors,
              ElementsAre("model.layers.1.self_attn", "model.layers.3.mlp"));
  EXPECT_THAT(notes_of(anchors + ", \"segment_broadcast_MB\": 8}}"),
              ElementsAre("s.json:2: sharding_configs.segment_broadcast_MB has no effect: "
                          "sharding_segment_strategy is segment_anchors"));
}

TEST_F(StrategyFileTest, GradientsAreMergedWithoutAPipelineOnly) {
  const auto json = [](int pp, const char* more) {
    return cat(R"({"pipeline": true, "sharding_configs": {"pp_degree": )", pp,
               R"(, "gradient_merge_acc_step": 3}, "pipeline_configs": {"accumulate_steps": 8)", more, "}}");
  };
  EXPECT_EQ(parse(json(1, "")).run.training.microbatches, 3);
  EXPECT_EQ(parse(json(2, "")).run.training.microbatches, 8);
  EXPECT_THAT(notes_of(json(1, "")),
              ElementsAre("s.json:1: pipeline_configs.accumulate_steps has no effect: pp_degree is 1, so "
                          "sharding_configs.gradient_merge_acc_step applies"));
  EXPECT_THAT(
      notes_of(json(2, "")),
      ElementsAre("s.json:1: sharding_configs.gradient_merge_acc_step has no effect: pp_degree is above "
                  "1, so pipeline_configs.accumulate_steps applies"));
}

TEST_F(StrategyFileTest, ReductionsOnceAStep) {
  const std::string json = R"({"sharding": true, "pipeline": true, "sharding_configs": {"sharding_degree": 2,
      "stage": 2, "pp_allreduce_in_optimize": true, "pp_degree": )";
  EXPECT_EQ(parse(json + "2}}").run.strategy.reduce_timing(), ReduceTiming::kStep);
  EXPECT_EQ(parse(json + "1}}").run.strategy.reduce_timing(), ReduceTiming::kMicrobatch);
  EXPECT_THAT(notes_of(json + "1}}"), ElementsAre(HasSubstr("pp_degree is 1 (see --sharding_reduce)")));
}

TEST_F(StrategyFileTest, KeysWithoutEffectAreNoted) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"sharding_configs": {"stage": 3}})", "sharding_configs.stage has no effect: sharding is false"},
      {R"({"sharding": true, "sharding_configs": {"sharding_degree": 1, "stage": 3}})",
       "sharding_configs.stage has no effect: sharding_degree is 1"},
      {R"({"sharding_configs": {"pp_allreduce_in_optimize": true}})",
       "sharding_configs.pp_allreduce_in_optimize has no effect: sharding is false"},
      {R"({"sharding_configs": {"segment_anchors": ["a"]}})",
       "sharding_configs.segment_anchors has no effect: sharding_segment_strategy is segment_broadcast_MB"},
      {R"({"sharding_configs": {"optimize_cast": true}})",
       "sharding_configs.optimize_cast true has no effect: 16-bit weights are always kept"},
      {R"({"sharding_configs": {"hybrid_dp": true}})",
       "sharding_configs.hybrid_dp true has no effect: it is deprecated"},
      {R"({"pipeline_configs": {"p2p_cache_shape": true}})",
       "p2p_cache_shape true has no effect: all ranks know"},
      {R"({"pipeline_configs": {"enable_partial_send_recv": true}})",
       "enable_partial_send_recv true has no effect: each mp rank sends"},
      {R"({"pipeline_configs": {"micro_batch_size": 2}})",
       "pipeline_configs.micro_batch_size has no effect: pipeline is false"},
      {R"({"pipeline_configs": {"schedule_mode": "ZBH1"}})",
       "pipeline_configs.schedule_mode has no effect: pipeline is false"},
  };
  for (const auto& [json, note] : cases) EXPECT_THAT(notes_of(json), ElementsAre(HasSubstr(note))) << json;
}

TEST_F(StrategyFileTest, EachKeyIsChecked) {
  const auto sharding = [](const std::string& entry) { return "{\"sharding_configs\": {" + entry + "}}"; };
  const auto pipeline = [](const std::string& entry) { return "{\"pipeline_configs\": {" + entry + "}}"; };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"sharding": 3})", "s.json:1: sharding must be true or false, got '3'"},
      {R"({"pipeline": "on"})", "s.json:1: pipeline must be true or false, got 'on'"},
      {sharding(R"("sharding_segment_strategy": "by_hand")"),
       "s.json:1: sharding_configs.sharding_segment_strategy must be one of segment_broadcast_MB, "
       "segment_anchors, got 'by_hand'"},
      {sharding(R"("segment_broadcast_MB": 0)"),
       "s.json:1: sharding_configs.segment_broadcast_MB must be a number, > 0, got '0'"},
      {sharding(R"("sharding_segment_strategy": "segment_anchors")"),
       "sharding_segment_strategy segment_anchors needs segment_anchors to name at least one layer, got "
       "none"},
      {sharding(R"("segment_anchors": ["a b"])"), "must be names of layers, which have no spaces, got 'a b'"},
      {sharding(R"("sharding_degree": 0)"), "sharding_configs.sharding_degree must be a whole number, >= 1"},
      {sharding(R"("mp_degree": 0)"),
       "s.json:1: sharding_configs.mp_degree must be a whole number, >= 1, got '0'"},
      {sharding(R"("mp_degree": 1.5)"), "sharding_configs.mp_degree must be a whole number, >= 1, got '1.5'"},
      {sharding(R"("pp_degree": -1)"), "sharding_configs.pp_degree must be a whole number, >= 1, got '-1'"},
      {sharding(R"("pp_degree": 4)"),
       "s.json:1: sharding_configs.pp_degree must be 1 unless pipeline is true, got 4"},
      {sharding(R"("dp_degree": 0)"), "sharding_configs.dp_degree must be a whole number, >= 1, got '0'"},
      {sharding(R"("stage": 4)"), "sharding_configs.stage must be a whole number, >= 0 and <= 3, got '4'"},
      {sharding(R"("gradient_merge_acc_step": 0)"), "gradient_merge_acc_step must be a whole number, >= 1"},
      {sharding(R"("optimize_offload": 2)"), "optimize_offload must be true or false, got '2'"},
      {sharding(R"("stage": [1, 2])"), "sharding_configs.stage takes one value"},
      {sharding(R"("stage": {})"),
       "sharding_configs.stage must be a single value or a list of them, got a map"},
      {sharding(R"("stage": 1, "stage": 2)"), "sharding_configs.stage is given twice; keep one"},
      {pipeline(R"("micro_batch_size": 0)"),
       "pipeline_configs.micro_batch_size must be a whole number, >= 1"},
      {pipeline(R"("accumulate_steps": 0)"),
       "pipeline_configs.accumulate_steps must be a whole number, >= 1"},
      {pipeline(R"("schedule_mode": "2F2B")"),
       "pipeline_configs.schedule_mode: there is no pipeline schedule mode \"2F2B\""},
      {sharding(R"("mp_degre": 2)"),
       "s.json:1: sharding_configs.mp_degre: there is no such key; did you mean mp_degree?"},
      {sharding(R"("accumulate_steps": 2)"),
       "sharding_configs.accumulate_steps: there is no such key; it belongs in pipeline_configs"},
      {R"({"mp_degree": 2})", "s.json:1: mp_degree: there is no such key; it belongs in sharding_configs"},
      {sharding(R"("pipeline": true)"), "there is no such key; it belongs outside the maps"},
      {R"({"sharding_configs.stage": 2})", "sharding_configs.stage: there is no such key"},
      {pipeline(R"("quixotic": 2)"), "there is no such key; use one of schedule_mode, micro_batch_size"},
      {R"({"sharding_configs": 5})",
       "s.json:1: sharding_configs must be a map of keys and values, got a single"},
      {"[1]", "s.json:1 must be a map of keys and values, got a list"},
  };
  for (const auto& [json, message] : cases) EXPECT_THAT(error_of(json), HasSubstr(message)) << json;
}

// strategy_keys has no key whose range EachKeyIsChecked could not know: each range rejects what is beyond it.
TEST_F(StrategyFileTest, EveryRangeRejects) {
  for (const OptionSpec& spec : strategy_keys()) {
    const bool is_number = spec.kind == OptionKind::kInteger || spec.kind == OptionKind::kReal;
    const Range& range = spec.info.range;
    EXPECT_EQ(range_text(range).empty(), !is_number) << spec.name << ": every number has a range";
    std::vector<double> bad;
    if (range.at_least) bad.push_back(*range.at_least - 1);
    if (range.above) bad.push_back(*range.above);
    if (range.at_most) bad.push_back(*range.at_most + 1);
    const size_t dot = spec.name.find('.');
    for (const double value : bad) {
      const std::string json = cat("{\"", spec.name.substr(0, dot), "\": {\"", spec.name.substr(dot + 1),
                                   "\": ", to_text(value), "}}");
      EXPECT_THAT(error_of(json), HasSubstr(cat(spec.name, " must be ", allowed_text(spec))));
    }
  }
}

TEST_F(StrategyFileTest, TheProductOfTheDegreesIsTheNumberOfRanks) {
  EXPECT_EQ(error_of(kAllThree, "", 32), "accepted");
  EXPECT_EQ(
      error_of(kAllThree, "", 16),
      "s.json: sharding_configs.mp_degree 2 x sharding_degree 4 x pp_degree 4 x dp_degree 1 = 32 must be "
      "the number of ranks, got 16: start 32 ranks or change a degree");
  EXPECT_THAT(error_of(R"({"sharding_configs": {"mp_degree": 2, "sharding_degree": 4}})", "", 8),
              HasSubstr("sharding_degree 1 (sharding is false) x pp_degree 1 x dp_degree 1 = 2 must be"));
  EXPECT_EQ(error_of(kAllThree, "--pipeline_parallel_degree 2", 16), "accepted");
  EXPECT_THAT(
      error_of(kAllThree, "--pipeline_parallel_degree 2", 32),
      HasSubstr("tensor_parallel_degree 2 x sharding_parallel_degree 4 x pipeline_parallel_degree 2 x "
                "data_parallel_degree 1 = 16 must be the number of ranks, got 32"));
  EXPECT_THAT(error_of(R"({"sharding_configs": {"mp_degree": 9999999999}})", "", 8), HasSubstr("maximum of"));
}

TEST_F(StrategyFileTest, AllErrorsComeAtOnceTogetherWithThoseOfFlags) {
  EXPECT_EQ(error_of(R"({
  "shardin": true,
  "sharding_configs": {"mp_degree": 0,
                       "stage": 7, "pp_degree": 4},
  "pipeline_configs": {"micro_batch_size": "one"}
})",
                     "--learning_rate 0 --tensor_parallel_config x1y2z3"),
            cat("7 errors:\n"
                "  s.json:2: shardin: there is no such key; did you mean sharding?\n"
                "  s.json:3: sharding_configs.mp_degree must be a whole number, >= 1, got '0'\n"
                "  s.json:4: sharding_configs.stage must be a whole number, >= 0 and <= 3, got '7'\n"
                "  s.json:5: pipeline_configs.micro_batch_size must be a whole number, >= 1, got 'one'\n"
                "  s.json:4: sharding_configs.pp_degree must be 1 unless pipeline is true, got 4\n"
                "  --learning_rate must be a number, > 0, got '0'\n",
                error_of("{}", "--tensor_parallel_config x1y2z3").insert(0, "  ")));
  EXPECT_THAT(error_of(R"({"sharding": true, "sharding_configs": {"stage": 7}})", "", 3),
              AllOf(HasSubstr("2 errors:"), HasSubstr("stage must be"), HasSubstr("number of ranks, got 3")));
}

TEST_F(StrategyFileTest, OptionsBesideTheFileTakePrecedenceAndAreNamed) {
  const PretrainCommand command = parse(kAllThree, "--tensor_parallel_degree 1 --sharding stage3", 16);
  EXPECT_EQ(command.run.strategy.mesh, (mesh::MeshShape{.mp = 1, .sharding = 4, .pp = 4}));
  EXPECT_EQ(command.run.strategy.sharding_stage, 3);
  EXPECT_THAT(notes_of(kAllThree,
                       "--tensor_parallel_degree 1 --sharding stage3 --segment_broadcast_MB 3 "
                       "--pipeline_parallel_degree 4"),
              ElementsAre("--tensor_parallel_degree 1 takes precedence over s.json:6: "
                          "sharding_configs.mp_degree 2",
                          "--sharding stage3 takes precedence over s.json:7: sharding_configs.stage "
                          "'stage2 offload'",
                          "--segment_broadcast_MB 3 takes precedence over s.json:5: "
                          "sharding_configs.segment_broadcast_MB 16"));
  // Each strand can be switched off by its flag.
  EXPECT_EQ(parse(kAllThree, "--sharding_parallel_degree 1", 8).run.strategy.mesh,
            (mesh::MeshShape{.mp = 2, .pp = 4}));
  EXPECT_EQ(parse(kAllThree, "--sharding= --data_parallel_degree 4", 32).run.strategy.mesh,
            (mesh::MeshShape{.mp = 2, .pp = 4, .dp = 4}));
  // Options in a file are options; a default of the strategy is overridden silently.
  const std::string options = directory_.write("run.json", R"({"model_name_or_path": "braid/llama-tiny",
      "synthetic_data": true, "output_dir": "o", "do_train": true, "max_steps": 5, "tensor_parallel_degree": 4,
      "data_parallel_degree": 2, "strategy": ")" + directory_.write("t.json", R"({"sharding_configs":
      {"mp_degree": 2}})") + "\"}");
  const PretrainCommand both = parse_pretrain(std::vector<std::string>{options}, 8);
  EXPECT_EQ(both.run.strategy.mesh, (mesh::MeshShape{.mp = 4, .dp = 2}));
  ASSERT_EQ(both.notes.size(), 1U);
  EXPECT_EQ(
      without_directory(both.notes.front()),
      "run.json:2: tensor_parallel_degree 4 takes precedence over t.json:2: sharding_configs.mp_degree 2");
}

// Random strategies written as a file, as flags and as an aggregate give the same run.
TEST_F(StrategyFileTest, RandomStrategiesAreTheSameAsFileFlagsAndAggregate) {
  std::mt19937 random(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const auto word = [](bool on) { return on ? "true" : "false"; };
  for (int i = 0; i < 200; ++i) {
    const bool pipeline = draw(0, 1) == 1;
    const bool anchors = draw(0, 2) == 0;
    const bool once = draw(0, 1) == 1;
    const int microbatches = draw(1, 4) * 4;
    Strategy s = {
        .mesh = {.mp = draw(1, 8), .sharding = draw(2, 8), .pp = pipeline ? draw(2, 4) : 1, .dp = draw(1, 3)},
        .sharding_stage = draw(0, 3),
        .offloads_optimizer = draw(0, 1) == 1};
    if (pipeline) {
      s.schedule_mode = draw(0, 1) == 1 ? "ZBH1" : "1F1B";
      if (draw(0, 1) == 1) s.receives = schedule::ReceivePosting::kEarly;
      if (once) s.sharding_reduce = ReduceTiming::kStep;
    }
    if (anchors) {
      s.segment_anchors = {"a", "b.c"};
    } else {
      s.segment_bytes = int64_t{draw(1, 64)} << 20;
    }
    const int64_t mib = s.segment_bytes >> 20;
    const bool early = s.receives == schedule::ReceivePosting::kEarly;
    std::string json =
        cat(R"({"sharding": true, "pipeline": )", word(pipeline), R"(, "sharding_configs": {"mp_degree": )",
            s.mesh.mp, R"(, "sharding_degree": )", s.mesh.sharding, R"(, "pp_degree": )", s.mesh.pp,
            R"(, "dp_degree": )", s.mesh.dp, R"(, "stage": )", s.sharding_stage, R"(, "optimize_offload": )",
            word(s.offloads_optimizer));
    std::string flags =
        cat("--tensor_parallel_degree ", s.mesh.mp, " --sharding_parallel_degree ", s.mesh.sharding,
            " --pipeline_parallel_degree ", s.mesh.pp, " --data_parallel_degree ", s.mesh.dp,
            " --gradient_accumulation_steps ", microbatches, " --sharding '=stage", s.sharding_stage,
            s.offloads_optimizer ? " offload'" : "'");
    if (anchors) {
      json += R"(, "sharding_segment_strategy": "segment_anchors", "segment_anchors": ["a", "b.c"])";
      flags += " --segment_anchors '=a b.c'";
    } else {
      json += cat(R"(, "segment_broadcast_MB": )", mib);
      flags += cat(" --segment_broadcast_MB ", mib);
    }
    if (pipeline) {
      json += cat(R"(, "pp_allreduce_in_optimize": )", word(once),
                  R"(}, "pipeline_configs": {"schedule_mode": ")", s.schedule_mode,
                  R"(", "micro_batch_size": 2, "accumulate_steps": )", microbatches,
                  R"(, "enable_send_recv_overlap": )", word(early), "}}");
      flags += cat(" --pipeline_schedule_mode ", s.schedule_mode, " --per_device_train_batch_size 2",
                   early ? " --enable_send_recv_overlap" : "", once ? " --sharding_reduce step" : "");
    } else {
      json += cat(R"(, "gradient_merge_acc_step": )", microbatches, "}}");
    }
    SCOPED_TRACE(json);
    const PretrainCommand file = parse(json, "", s.mesh.world_size());
    EXPECT_EQ(file.run.strategy, s);
    EXPECT_EQ(file.run.training.microbatches, microbatches);
    EXPECT_THAT(file.notes, IsEmpty());
    EXPECT_EQ(file.run, parse_pretrain(arguments_with("", flags), s.mesh.world_size()).run);
  }
}

}  // namespace
}  // namespace braid::config
