#include "braid/comm/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

using testing::HasSubstr;
using testing::Not;

RankRecord record_of(int rank) {
  return {.host = rank < 2 ? "host0" : "host1",
          .pid = cat(100 + rank),
          .world_size = "4",
          .run_id = "run",
          .nonce = cat(rank),
          .introduction = {.braid_version = "1",
                           .settings = {{"seed", "1"}, {"learning_rate", "0.1"}, {"empty", ""}}}};
}

std::map<int, RankRecord> four_ranks() {
  std::map<int, RankRecord> records;
  for (int rank = 0; rank < 4; ++rank) records[rank] = record_of(rank);
  return records;
}

TEST(Agreement, RecordsReadBack) {
  RankRecord record = record_of(3);
  record.introduction.settings.emplace_back("text", std::string("a\nb\0c", 5));
  record.introduction.files = {{"p", "x"}, {"q", ""}};
  const RankRecord back = decode(encode(record), 3);
  EXPECT_EQ(back.host, "host1");
  EXPECT_EQ(back.introduction.settings, record.introduction.settings);
  EXPECT_EQ(back.introduction.files, record.introduction.files);
  for (const std::string& other : {std::string(""),
                                   std::string("a\x1f"
                                               "b"),
                                   encode(record).substr(0, 60)}) {
    try {
      decode(other, 3);
      ADD_FAILURE() << "accepted";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3 runs a braid with another startup protocol"));
    }
  }
}

TEST(Agreement, RanksAreGrouped) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1}), "ranks 0, 1");
  EXPECT_EQ(ranks_text({0, 1, 2, 3}), "ranks 0 to 3");
  EXPECT_EQ(ranks_text({0, 2, 3, 4, 7, 8}), "ranks 0, 2 to 4, 7, 8");
  std::vector<int> odd;
  for (int rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  EXPECT_THAT(ranks_text(odd), HasSubstr("39 and 30 more"));
}

TEST(Agreement, EqualRecordsDifferInNothing) { EXPECT_EQ(differences(four_ranks()), ""); }

TEST(Agreement, OnlySettingsThatDifferAreNamedByTheRanksThatHaveThem) {
  std::map<int, RankRecord> records = four_ranks();
  records[3].introduction.settings[0].second = "2";
  records[1].introduction.settings[2].second = "not so";
  const std::string text = differences(records);
  EXPECT_THAT(text,
              HasSubstr("seed: ranks 0 to 2 have 1, rank 3 has 2; empty: ranks 0, 2, 3 have '', rank 1 has "
                        "'not so'; give all ranks the same options"));
  EXPECT_THAT(text, Not(HasSubstr("learning_rate")));
  records[2].introduction.settings.pop_back();
  EXPECT_THAT(differences(records), HasSubstr("rank 2 has nothing"));
}

TEST(Agreement, ARankThatStatesNoSettingsDiffersInNone) {
  std::map<int, RankRecord> records = four_ranks();
  records[0].introduction.settings.clear();
  EXPECT_EQ(differences(records), "");
  EXPECT_TRUE(agree(records[0], records[1]));
  records[1].introduction.settings[0].second = "2";
  EXPECT_FALSE(agree(records[1], records[2]));
  EXPECT_THAT(differences(records), HasSubstr("seed: rank 1 has 2, ranks 2, 3 have 1"));
}

TEST(Agreement, ManyDifferencesAreCounted) {
  std::map<int, RankRecord> records = four_ranks();
  for (int i = 0; i < 50; ++i)
    records[0].introduction.settings.emplace_back(cat("option_", i), std::string(1000, 'x'));
  const std::string text = differences(records);
  EXPECT_THAT(text, HasSubstr("option_19: "));
  EXPECT_THAT(text, HasSubstr("; and 30 more"));
  EXPECT_LT(text.size(), 10'000u);
}

TEST(Agreement, FilesAreComparedAmongTheMachinesThatReadThem) {
  std::map<int, RankRecord> records = four_ranks();
  records[0].introduction.files = {{"a.bin", "sha256:1"}, {"a.idx", "sha256:2"}};
  EXPECT_EQ(differences(records), "");
  records[2].introduction.files = records[0].introduction.files;
  EXPECT_EQ(differences(records), "");
  records[2].introduction.files[0].content = "sha256:9";
  EXPECT_FALSE(agree(records[0], records[2]));
  EXPECT_TRUE(agree(records[0], records[1]));
  EXPECT_THAT(differences(records),
              HasSubstr("a.bin is sha256:1 on host0 (rank 0), but sha256:9 on host1 (rank 2); copy"));
  records[2].introduction.files = {{"a.bin", "sha256:1"}};
  EXPECT_THAT(differences(records),
              HasSubstr("a.idx is sha256:2 on host0 (rank 0), but not there on host1 (rank 2)"));
}

}  // namespace
}  // namespace braid::comm
