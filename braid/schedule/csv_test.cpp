#include "braid/schedule/csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "braid/base/error.h"
#include "braid/schedule/generators/generate.h"
#include "braid/schedule/passes/lower.h"

namespace braid::schedule {
namespace {

TEST(ToCsv, GoldenOneFOneB) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 2});
  const std::string expected =
      "0F0,0F1,0B0,0B1\n"
      "1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(to_csv(schedule), expected);
  EXPECT_EQ(to_csv(lower(schedule, {.step_end = {.tied = {{0, 1}}}})),
            "0F0,0F1,0B0,0B1,0REDUCE_TIED,0WAIT_REDUCE_TIED,NORM,WAIT_NORM,0UPDATE\n"
            "1F0,1B0,1F1,1B1,1REDUCE_TIED,NORM,WAIT_NORM,1WAIT_REDUCE_TIED,1UPDATE\n")
      << "no messages";
}

TEST(ToCsv, CellsNameStagesNotChunks) {
  const Schedule v = {.shape = {.ranks = 2, .chunks_per_rank = 2},
                      .placement = Placement::kV,
                      .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 B0"), parse_actions("F0 F0c1 B0c1 B0")}};
  EXPECT_EQ(to_csv(v),
            "0F0,3F0,3I0,3W0,0B0\n"
            "1F0,2F0,2B0,1B0\n");
}

std::string rejection(std::string_view text) {
  try {
    from_csv(text, "mine");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "was accepted";
}

// All actions of a random number of ranks, chunks and microbatches on random places, in random order: no
// schedule that could run, but one that can be written.
Schedule random_schedule(std::mt19937& random) {
  Schedule schedule = {.name = "random",
                       .shape = {.ranks = static_cast<int32_t>(1 + random() % 5),
                                 .chunks_per_rank = static_cast<int32_t>(1 + random() % 3),
                                 .microbatches = static_cast<int32_t>(1 + random() % 12)}};
  schedule.placement = random() % 2 == 0 ? Placement::kV : Placement::kLooped;
  std::vector<int32_t> rank_of_stage;
  for (int32_t stage = 0; stage < schedule.shape.stages(); ++stage) {
    rank_of_stage.push_back(place_of(schedule, stage).rank);
  }
  if (random() % 2 == 0) std::shuffle(rank_of_stage.begin(), rank_of_stage.end(), random);
  place_stages(schedule, rank_of_stage);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    std::vector<Action>& list = schedule.ranks.emplace_back();
    for (int32_t chunk = 0; chunk < schedule.shape.chunks_per_rank; ++chunk) {
      for (int32_t i = 0; i < schedule.shape.microbatches; ++i) {
        list.push_back({Op::kForward, chunk, i});
        if (random() % 2 == 0) {
          list.push_back({Op::kBackward, chunk, i});
        } else {
          list.push_back({Op::kBackwardInput, chunk, i});
          list.push_back({Op::kBackwardWeight, chunk, i});
        }
      }
    }
    for (uint32_t i = random() % 4; i > 0; --i) {
      for (const Op op : {Op::kReduceTied, Op::kWaitReduceTied, Op::kUpdate}) {
        list.push_back(
            {.op = op, .chunk = static_cast<int32_t>(random() % 3) % schedule.shape.chunks_per_rank});
      }
      list.push_back({.op = random() % 2 == 0 ? Op::kNorm : Op::kWaitNorm});
    }
    std::shuffle(list.begin(), list.end(), random);
  }
  return schedule;
}

TEST(FromCsv, ReadsWhatToCsvWrote) {
  std::mt19937 random(20240102);
  std::array<int, 3> seen = {0, 0, 0};
  for (int i = 0; i < 500; ++i) {
    const Schedule schedule = random_schedule(random);
    ++seen[static_cast<size_t>(schedule.placement)];
    ASSERT_EQ(from_csv(to_csv(schedule), "random"), schedule) << to_csv(schedule);
  }
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 50) << "every placement is among them";
}

TEST(FromCsv, ReadsEveryMode) {
  for (const Mode& mode : modes()) {
    const Schedule schedule =
        generate(mode.name, {.ranks = 3, .chunks_per_rank = mode.chunks.value_or(2), .microbatches = 6});
    EXPECT_EQ(from_csv(to_csv(schedule), schedule.name), schedule);
  }
}

TEST(FromCsv, IdleSlotsWhiteSpaceAndLineEndsDoNotMatter) {
  const Schedule expected = generate("1F1B", {.ranks = 2, .microbatches = 2});
  EXPECT_EQ(from_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", "1F1B"), expected) << "no line end at the end";
  EXPECT_EQ(from_csv("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n", "1F1B"), expected);
  EXPECT_EQ(from_csv(" 0F0 ,0F1,,\t,0B0,,0B1\n,1F0,1B0,1F1,1B1,,\n\n \r\n", "1F1B"), expected);
}

// What PyTorch's DualPipeV prints for 2 ranks and 5 microbatches.
TEST(FromCsv, CompoundActionsAreTheirPartsInOrder) {
  const Schedule schedule = from_csv(
      "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,(0F4;3B2)OVERLAP_F_B,"
      "(3F3;0B1)OVERLAP_F_B,3B3,(3F4;0B2)OVERLAP_F_B,3B4,0I3,0W3,0I4,0W4\n"
      "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,"
      "(1F4;2B2)OVERLAP_F_B,( 2F4 ; 1B2 )OVERLAP_F_B,2B3,1B3,2I4,1I4,2W4,1W4\n",
      "DualPipeV");
  EXPECT_EQ(schedule, generate("DualPipeV", {.ranks = 2, .chunks_per_rank = 2, .microbatches = 5}));
}

TEST(FromCsv, InfersThePlacementFromTheRows) {
  const Schedule table = from_csv("1F0,0F0,0B0,1I0,1W0\n2F0,3F0,3B0,2B0\n", "mine");
  EXPECT_EQ(table.placement, Placement::kTable);
  EXPECT_EQ(table.table.stages, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(to_string(table.ranks[0]), "F0c1 F0 B0 I0c1 W0c1");
  EXPECT_EQ(from_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "mine").placement, Placement::kV);
}

// The pass leaves what the file places, and check proves it.
TEST(FromCsv, TheEndOfTheStepStaysWhereTheFileHasIt) {
  const std::string text =
      "0F0,0F1,2F0,2F1,2B0,2B1,2UPDATE,0B0,0B1,NORM,0UPDATE\n"
      "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1,3UPDATE,NORM,1UPDATE\n";
  const LowerOptions options = {.step_end = {.norm_use = NormUse::kReportedOnly}};
  EXPECT_EQ(to_csv(lower(from_csv(text, "mine"), options)), text);
  try {
    lower(from_csv(text, "mine"), {});
    ADD_FAILURE() << "accepted updates before the norm that scales them";
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "schedule mine, rank 0, position 6 (UPDATEc1): needs WAIT_NORM before it");
  }
}

TEST(FromCsvRejects, CellsThatAreNoComputeAction) {
  const std::string form =
      ": write stage, type and microbatch, as in 2F0, where the types are F, B (whole backward), I (gradient "
      "of the input) and W (gradients of the weights); or two at once, as in (5F3;2B1)OVERLAP_F_B; or what "
      "ends a step, as in 2UPDATE, 2REDUCE_TIED, 2WAIT_REDUCE_TIED, NORM and WAIT_NORM";
  for (const std::string cell : {"F0",
                                 "0F",
                                 "0X0",
                                 "0F0x",
                                 "0F0 0B0",
                                 "0f0",
                                 "-1F0",
                                 "+0F0",
                                 "0F-1",
                                 "0F1.5",
                                 "0",
                                 "x",
                                 "0OVERLAP_F_B",
                                 "()OVERLAP_F_B",
                                 "(1F0;)OVERLAP_F_B",
                                 "(1F0;(1B0)OVERLAP_F_B",
                                 "\"0F0\"",
                                 "UPDATE",
                                 "0UPDATE0",
                                 "0NORM",
                                 "NORM0",
                                 "0UPDATEc1"}) {
    EXPECT_EQ(rejection("0F0,0B0\n1F0,," + cell + ",1B0\n"),
              "schedule mine, row 2, cell 3 (\"" + cell + "\")" + form);
  }
  const std::string compound = ": a compound action ends in )OVERLAP_F_B, as in (5F3;2B1)OVERLAP_F_B";
  for (const std::string cell : {"(0F0;0B0", "(0F0;0B0)", "(0F0;0B0)OVERLAP_F_Bx", "(0F0;0B0)B"}) {
    EXPECT_EQ(rejection(cell), "schedule mine, row 1, cell 1 (\"" + cell + "\")" + compound);
  }
  EXPECT_EQ(rejection(std::string_view("0F0\0,0B0", 8)), "schedule mine, row 1, cell 1 (\"0F0?\")" + form);
  EXPECT_EQ(rejection("\x1b[31m0F0"), "schedule mine, row 1, cell 1 (\"?[31m0F0\")" + form);
  EXPECT_EQ(rejection(std::string(1000, 'x')),
            "schedule mine, row 1, cell 1 (\"" + std::string(40, 'x') + "...\")" + form);
}

TEST(FromCsvRejects, MessagesAndOtherThingsThatBraidPlacesItself) {
  for (const std::string cell :
       {"0SEND_F0", "0RECV_F0", "0SEND_B0", "0RECV_B0", "0WAIT_SEND_F0", "0WAIT_SEND_B0", "0UNSHARD",
        "0RESHARD", "0REDUCE_GRAD", "0WAIT_REDUCE_GRAD"}) {
    EXPECT_EQ(
        rejection("0F0," + cell + ",0B0"),
        "schedule mine, row 1, cell 2 (\"" + cell +
            "\"): give compute actions (PyTorch's compute_only format), or those with the end of the step: "
            "braid places messages itself");
  }
}

TEST(FromCsvRejects, NumbersThatAreTooLarge) {
  EXPECT_EQ(rejection("268435456F0"),
            "schedule mine, row 1, cell 1 (\"268435456F0\"): a stage may be at most 268435455");
  EXPECT_EQ(
      rejection("0F99999999999999999999"),
      "schedule mine, row 1, cell 1 (\"0F99999999999999999999\"): a microbatch may be at most 268435455");
  const std::string each = ": an F and a B of every microbatch up to this one on every stage would be ";
  EXPECT_EQ(rejection("0F0,0F268435455,0B1"), "schedule mine, row 1, cell 2 (\"0F268435455\")" + each +
                                                  "536870912 actions, but there are only 3");
  EXPECT_EQ(rejection("0F0\n1F0"),
            "schedule mine, row 1, cell 1 (\"0F0\")" + each + "4 actions, but there are only 2");
}

TEST(FromCsvRejects, StagesThatAreMissingDoubledOrUnevenlySpread) {
  EXPECT_EQ(
      rejection("0F0,0B0\n1F0,0B0"),
      "schedule mine, row 2, cell 2 (\"0B0\"): stage 0 is in row 1, cell 1 too: a stage lives on one rank");
  EXPECT_EQ(
      rejection("0F0,0B0\n268435455F0,268435455B0"),
      "schedule mine, row 2, cell 1 (\"268435455F0\"): stage 268435455 is there, but stage 1 is in no row: "
      "number them from 0 without a gap");
  EXPECT_EQ(rejection("0F0,1F0,1B0,0B0\n2F0,2B0"),
            "schedule mine, row 2 has 1 stage, but row 1 has 2: every rank must hold the same number");
  EXPECT_EQ(rejection("\n0F0,0B0"),
            "schedule mine, row 2 has 1 stage, but row 1 has 0: every rank must hold the same number");
}

TEST(FromCsvRejects, TextWithoutActions) {
  EXPECT_EQ(rejection(""), "schedule mine has no rows: write one per rank, with cells like 0F0,0B0");
  EXPECT_EQ(rejection(" \r\n\n"), "schedule mine has no rows: write one per rank, with cells like 0F0,0B0");
  EXPECT_EQ(rejection(",,\n,"), "schedule mine has only empty cells: write cells like 0F0,0B0");
}

// Whatever comes of it, it is a schedule that can be looked at, or a ConfigError.
TEST(FromCsv, NeverFailsInAnotherWay) {
  std::mt19937 random(20240103);
  constexpr std::string_view kBytes("0123456789FBIW,;()\n\r _SENDx\0\xff", 29);
  int accepted = 0;
  int rejected = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = to_csv(random_schedule(random));
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      const char byte = kBytes[random() % kBytes.size()];
      switch (random() % 3) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1 + random() % 12, byte);
          break;
        default:
          text.erase(at, 1 + random() % 12);
          if (text.empty()) text = "\n";
      }
    }
    try {
      const Schedule schedule = from_csv(text, "mutated");
      ++accepted;
      ASSERT_EQ(from_csv(to_csv(schedule), "mutated"), schedule) << text;
    } catch (const ConfigError&) {
      ++rejected;
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(rejected, 200);
}

}  // namespace
}  // namespace braid::schedule
