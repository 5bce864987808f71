#include "braid/config/mesh_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "braid/base/error.h"

namespace braid::config {
namespace {

using testing::HasSubstr;

PretrainOptions degrees(int64_t mp, int64_t sharding, int64_t pp, int64_t dp,
                        const std::string& stage = "stage1") {
  PretrainOptions options;
  options.tensor_parallel_degree = mp;
  options.sharding_parallel_degree = sharding;
  options.pipeline_parallel_degree = pp;
  options.data_parallel_degree = dp;
  options.sharding = stage;
  return options;
}

std::string error_of(const PretrainOptions& options, std::optional<int64_t> world_size) {
  try {
    mesh_of(options, world_size);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// Every combination of given and inferred degrees against the definition: what is given is kept, mp and pp
// default to 1, sharding to what remains where a stage is named and to 1 elsewhere, and dp to what remains
// after that.
TEST(MeshOptions, EveryCombinationOfSmallDegrees) {
  int accepted = 0;
  int rejected = 0;
  for (int64_t world = 1; world <= 12; ++world) {
    for (const int64_t mp : {-1, 1, 2}) {
      for (const int64_t sharding : {-1, 1, 2, 3}) {
        for (const int64_t pp : {-1, 1, 2}) {
          for (const int64_t dp : {-1, 1, 2, 3}) {
            for (const char* stage : {"", "stage0", "stage2 offload"}) {
              const bool shards = std::string(stage) != "";
              const int64_t inner = (mp == -1 ? 1 : mp) * (pp == -1 ? 1 : pp);
              const int64_t axis = shards ? sharding : 1;
              bool fits = false;
              mesh::MeshShape expected;
              for (int32_t s = 1; s <= 12; ++s) {
                for (int32_t d = 1; d <= 12; ++d) {
                  if (axis != -1 && s != axis) continue;
                  if (dp != -1 && d != dp) continue;
                  if (axis == -1 && dp == -1 && d != 1) continue;
                  if (inner * s * d != world) continue;
                  ASSERT_FALSE(fits) << "the definition gives one mesh";
                  fits = true;
                  expected = {.mp = static_cast<int32_t>(mp == -1 ? 1 : mp),
                              .sharding = s,
                              .pp = static_cast<int32_t>(pp == -1 ? 1 : pp),
                              .dp = d};
                }
              }
              const PretrainOptions options = degrees(mp, sharding, pp, dp, stage);
              SCOPED_TRACE(testing::Message() << world << ": " << mp << " " << sharding << " " << pp << " "
                                              << dp << " '" << stage << "'");
              if (fits) {
                EXPECT_EQ(mesh_of(options, world), expected);
                ++accepted;
              } else {
                EXPECT_THAT(error_of(options, world), HasSubstr("must be the number of ranks, got"));
                ++rejected;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(rejected, 500);
}

TEST(MeshOptions, WithoutAWorldDegreesAreTakenAsTheyAre) {
  EXPECT_EQ(mesh_of(degrees(2, 4, 3, -1), {}), (mesh::MeshShape{.mp = 2, .sharding = 4, .pp = 3}));
  EXPECT_EQ(mesh_of(degrees(-1, -1, -1, 6), {}), (mesh::MeshShape{.dp = 6}));
}

TEST(MeshOptions, TheProductRuleNamesAllFourDegrees) {
  EXPECT_EQ(
      error_of(degrees(2, 4, 4, 1), 8),
      "tensor_parallel_degree 2 x sharding_parallel_degree 4 x pipeline_parallel_degree 4 x "
      "data_parallel_degree 1 = 32 must be the number of ranks, got 8: start 32 ranks or change a degree");
  EXPECT_EQ(
      error_of(degrees(2, -1, 2, -1), 6),
      "tensor_parallel_degree 2 x sharding_parallel_degree -1 (inferred) x pipeline_parallel_degree 2 x "
      "data_parallel_degree -1 (inferred) = 4 times what is inferred must be the number of ranks, got 6: "
      "start a multiple of 4 ranks or change a degree");
  EXPECT_THAT(error_of(degrees(INT64_MAX, 1, 1, 1), 1),
              HasSubstr("more than the maximum of 2147483647 ranks"));
  EXPECT_THAT(error_of(degrees(2, INT32_MAX, 1, 1), {}), HasSubstr("more than the maximum"));
}

TEST(MeshOptions, TheStageInSharding) {
  for (const char* name : {"", "true", "stage1", "stage1 offload"})
    EXPECT_EQ(sharding_stage(degrees(1, 1, 1, 1, name)), 1) << name;
  EXPECT_EQ(sharding_stage(degrees(1, 1, 1, 1, "stage0")), 0);
  EXPECT_EQ(sharding_stage(degrees(1, 1, 1, 1, "stage3 offload")), 3);
  EXPECT_TRUE(offloads_optimizer(degrees(1, 1, 1, 1, "stage2 offload")));
  EXPECT_FALSE(offloads_optimizer(degrees(1, 1, 1, 1, "stage2")));
}

}  // namespace
}  // namespace braid::config
