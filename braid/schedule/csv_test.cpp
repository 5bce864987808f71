#include "braid/schedule/csv.h"

#include <gtest/gtest.h>

#include "braid/schedule/generate.h"
#include "braid/schedule/lower.h"

namespace braid::schedule {
namespace {

TEST(ToCsv, GoldenOneFOneB) {
  const Schedule schedule = generate("1F1B", {.ranks = 2, .microbatches = 2});
  const std::string expected =
      "0F0,0F1,0B0,0B1\n"
      "1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(to_csv(schedule), expected);
  EXPECT_EQ(to_csv(lower(schedule, {})), expected) << "compute actions only";
}

TEST(ToCsv, CellsNameStagesNotChunks) {
  const Schedule v = {.shape = {.ranks = 2, .chunks_per_rank = 2},
                      .placement = Placement::kV,
                      .ranks = {parse_actions("F0 F0c1 I0c1 W0c1 B0"), parse_actions("F0 F0c1 B0c1 B0")}};
  EXPECT_EQ(to_csv(v),
            "0F0,3F0,3I0,3W0,0B0\n"
            "1F0,2F0,2B0,1B0\n");
}

}  // namespace
}  // namespace braid::schedule
