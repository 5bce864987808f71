#include "braid/cost/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/random.h"

namespace braid::cost {
namespace {

using testing::HasSubstr;

double stage_cost(const std::vector<double>& units, const std::vector<StageLayers>& cut, size_t stage) {
  double cost = 0;
  for (int64_t layer = cut[stage].first_layer; layer < cut[stage].end_layer; ++layer) {
    cost += units[static_cast<size_t>(layer) + 1];
  }
  if (stage == 0) cost += units.front();
  if (stage + 1 == cut.size()) cost += units.back();
  return cost;
}

double most_expensive(const std::vector<double>& units, const std::vector<StageLayers>& cut) {
  double most = 0;
  for (size_t stage = 0; stage < cut.size(); ++stage) most = std::max(most, stage_cost(units, cut, stage));
  return most;
}

// The cost of the most expensive stage in the best of all cuts of layers [first, layers), found by trying
// each.
double best_of_all(const std::vector<double>& units, int64_t stages, std::vector<StageLayers> cut,
                   int64_t first) {
  const auto layers = static_cast<int64_t>(units.size()) - 2;
  if (static_cast<int64_t>(cut.size()) == stages) {
    return first == layers ? most_expensive(units, cut) : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (int64_t end = first + 1; end <= layers; ++end) {
    cut.push_back({first, end});
    best = std::min(best, best_of_all(units, stages, cut, end));
    cut.pop_back();
  }
  return best;
}

std::string sizes(const std::vector<StageLayers>& cut) {
  std::string text;
  for (const StageLayers& stage : cut) text += std::to_string(stage.size()) + " ";
  return text;
}

TEST(Partition, NoCutOfAnySmallModelIsBetter) {
  for (int64_t layers = 1; layers <= 9; ++layers) {
    for (int64_t stages = 1; stages <= layers; ++stages) {
      for (uint64_t trial = 0; trial < 12; ++trial) {
        SCOPED_TRACE(testing::Message() << layers << " layers, " << stages << " stages, trial " << trial);
        std::vector<double> units;
        for (int64_t i = 0; i < layers + 2; ++i) {
          const uint32_t word = philox(trial, static_cast<uint64_t>(100 * layers + i))[0];
          // Ties, zeros and steep differences among them.
          units.push_back(trial % 3 == 0   ? word % 3
                          : trial % 3 == 1 ? word % 1000 + 1
                                           : 1.0 + word % 2 * 50.0);
        }
        const auto cut = partition(units, stages);
        ASSERT_EQ(static_cast<int64_t>(cut.size()), stages);
        int64_t next = 0;
        for (const StageLayers& stage : cut) {
          ASSERT_EQ(stage.first_layer, next) << "no layer omitted or repeated";
          ASSERT_GE(stage.size(), 1);
          next = stage.end_layer;
        }
        ASSERT_EQ(next, layers);
        // Costs are rounded to 2^-30 of their sum.
        ASSERT_NEAR(most_expensive(units, cut), best_of_all(units, stages, {}, 0),
                    1e-7 * most_expensive(units, cut) + 1e-12);
        ASSERT_EQ(cut, partition(units, stages));
      }
    }
  }
}

TEST(Partition, EqualLayersAreSpreadEvenlyFewerInFront) {
  EXPECT_EQ(sizes(partition(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 0}, 3)), "2 3 3 ");
  EXPECT_EQ(sizes(partition(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, 4)), "2 2 2 3 ");
  EXPECT_EQ(sizes(partition(std::vector<double>{0, 0, 0, 0, 0, 0}, 3)), "1 1 2 ");
}

TEST(Partition, EmbeddingAndHeadCount) {
  EXPECT_EQ(sizes(partition(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1, 1, 2}, 2)), "5 3 ");
  EXPECT_EQ(sizes(partition(std::vector<double>{2, 1, 1, 1, 1, 1, 1, 1, 1, 0}, 2)), "3 5 ");
  EXPECT_EQ(sizes(partition(std::vector<double>{0, 1, 1, 1, 100}, 3)), "1 1 1 ");
}

TEST(Partition, LargeModelsAreCutInNoTime) {
  std::vector<double> units(2002, 1.0);
  units.back() = 7;
  const auto cut = partition(units, 64);
  EXPECT_EQ(cut.size(), 64U);
  EXPECT_EQ(cut.back().end_layer, 2000);
}

TEST(Partition, RejectionsNameBothNumbers) {
  const auto rejection = [](const std::vector<double>& units, int64_t stages) {
    try {
      partition(units, stages);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(rejection({1, 1, 1, 1}, 3),
              HasSubstr("a model of 2 decoder layers cannot be cut into 3 stages"));
  EXPECT_THAT(rejection({1, 1, 1}, 0), HasSubstr("cannot be cut into 0 stages"));
  EXPECT_THAT(rejection({1, 1}, 1), HasSubstr("got 2 costs"));
  EXPECT_THAT(rejection({1, -1, 1}, 1), HasSubstr("not negative, got -1"));
  EXPECT_THAT(rejection({1, std::numeric_limits<double>::infinity(), 1}, 1), HasSubstr("finite"));
  EXPECT_THAT(rejection({1e308, 1e308, 1e308}, 1), HasSubstr("too large"));
}

}  // namespace
}  // namespace braid::cost
