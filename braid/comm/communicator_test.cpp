#include "braid/comm/communicator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "braid/base/error.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

BackendOptions within(milliseconds timeout) { return {.timeout = timeout}; }
constexpr milliseconds kPlenty = milliseconds(30'000);

// Whole numbers small enough that every dtype here adds them exactly.
at::Tensor numbers(int rank, int64_t count, at::ScalarType dtype) {
  return (at::arange(count, at::kLong).remainder(13) + rank).to(dtype);
}

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AgreeWithPlainSumsAndCopies) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    EXPECT_EQ(axis.size(), n);
    EXPECT_EQ(axis.index(), world.rank);
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
      for (const int64_t count : {0, 1, 7, 100'000}) {
        SCOPED_TRACE(testing::Message() << c10::toString(dtype) << " x " << count);
        at::Tensor expected = at::zeros({count}, dtype);
        for (int rank = 0; rank < n; ++rank) expected += numbers(rank, count, dtype);
        at::Tensor sum = numbers(world.rank, count, dtype);
        axis.all_reduce_sum(sum).wait();
        EXPECT_TRUE(at::equal(sum, expected));

        for (int root = 0; root < n; ++root) {
          at::Tensor shared = numbers(world.rank, count, dtype);
          axis.broadcast(shared, root).wait();
          EXPECT_TRUE(at::equal(shared, numbers(root, count, dtype)));
        }
        const at::Tensor all = axis.all_gather(numbers(world.rank, count, dtype)).wait();
        ASSERT_EQ(all.sizes(), at::IntArrayRef({n, count}));
        for (int rank = 0; rank < n; ++rank) EXPECT_TRUE(at::equal(all[rank], numbers(rank, count, dtype)));
      }
    }
  });
}

TEST_P(Collectives, GatherStringsOfAnyLength) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank * 1000), static_cast<char>('a' + rank)) + '\0';
    };
    const std::vector<std::string> all = axis.all_gather_bytes(text(world.rank));
    ASSERT_EQ(all.size(), static_cast<size_t>(n));
    for (int rank = 0; rank < n; ++rank) EXPECT_EQ(all[static_cast<size_t>(rank)], text(rank));
    EXPECT_EQ(axis.all_gather_bytes(""), std::vector<std::string>(static_cast<size_t>(n)));
  });
}

TEST_P(Collectives, BarrierHoldsAllUntilTheLast) {
  const int n = GetParam();
  std::atomic<int> arrived = 0;
  run_ranks(n, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    std::this_thread::sleep_for(milliseconds(10 * world.rank));
    ++arrived;
    axis.barrier().wait();
    EXPECT_EQ(arrived, n);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::Range(1, 5));

TEST(Communicator, GroupsOfAMeshDoNotMixUp) {
  run_ranks(4, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const int row = world.rank / 2;
    const int column = world.rank % 2;
    Communicator dp(store, {.axis = "dp", .ranks = {column, column + 2}, .index = row}, within(kPlenty));
    Communicator mp(store, {.axis = "mp", .ranks = {2 * row, 2 * row + 1}, .index = column}, within(kPlenty));
    at::Tensor a = at::full({3}, world.rank, at::kFloat);
    at::Tensor b = a.clone();
    dp.all_reduce_sum(a).wait();
    mp.all_reduce_sum(b).wait();
    EXPECT_EQ(a[0].item<float>(), static_cast<float>(2 * column + 2));
    EXPECT_EQ(b[0].item<float>(), static_cast<float>(4 * row + 1));
  });
}

TEST(Communicator, TheSumHasTheSameBitsOnAllRanksAndEveryTime) {
  at::manual_seed(1);
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < 4; ++rank) inputs.push_back(at::randn({10'001}));
  std::vector<at::Tensor> sums(8);
  for (size_t run = 0; run < 2; ++run) {
    run_ranks(4, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
      at::Tensor sum = inputs[static_cast<size_t>(world.rank)].clone();
      axis.all_reduce_sum(sum).wait();
      sums[4 * run + static_cast<size_t>(world.rank)] = sum;
    });
  }
  for (const at::Tensor& sum : sums) EXPECT_TRUE(at::equal(sum, sums.front()));
}

TEST(Communicator, CallsThatDoNotMatchAreNamedInsteadOfHanging) {
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
        at::Tensor tensor = at::zeros({world.rank == 0 ? 10 : 20});
        axis.all_reduce_sum(tensor).wait();
      });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, HasSubstr("all_reduce_sum of 10 x Float"));
    EXPECT_THAT(*message, HasSubstr("all_reduce_sum of 20 x Float"));
  }
  const auto others =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
        at::Tensor tensor = at::zeros({4});
        if (world.rank == 0) {
          axis.barrier().wait();
        } else {
          axis.broadcast(tensor, 1).wait();
        }
      });
  for (const auto& message : others) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, HasSubstr("rank 0 (dp 0)"));
    EXPECT_THAT(*message, HasSubstr("barrier"));
    EXPECT_THAT(*message, HasSubstr("broadcast of 4 x Float from member 1"));
  }
}

TEST(Communicator, UnsuitableTensorsAreRefused) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    at::Tensor transposed = at::zeros({2, 3}).t();
    EXPECT_THROW((void)axis.all_reduce_sum(transposed), ShapeError);
    EXPECT_THROW((void)axis.broadcast(transposed, 2), InternalError);
    axis.barrier().wait();
  });
}

TEST(Communicator, AGlooInterfaceMayBeNamed) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const BackendOptions options = backend_options(world, c10::Device(c10::kCPU), kPlenty, "lo");
    EXPECT_EQ(options.local_address, "127.0.0.1") << "the master is on the loopback device";
    Communicator axis(store, group_of_all(world, "dp"), options);
    at::Tensor one = at::ones({1});
    axis.all_reduce_sum(one).wait();
    EXPECT_EQ(one.item<float>(), 2.0f);
  });
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        const BackendOptions options = backend_options(world, c10::Device(c10::kCPU), kPlenty, "nosuch0");
        Communicator(store, group_of_all(world, "dp"), options);
      });
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], HasSubstr("nosuch0"));
}

TEST(Communicator, ALateRankMakesTheOthersTimeOutWithItsName) {
  const auto messages =
      run_failing_ranks(3, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        if (world.rank == 1) std::this_thread::sleep_for(milliseconds(600));
        if (world.rank != 1) Communicator(store, group_of_all(world, "dp"), within(milliseconds(200)));
      });
  EXPECT_FALSE(messages[1].has_value());
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], HasSubstr("rank 0 (dp 0) waited 0.2 s to be connected with rank 1 (dp 1)"));
}

TEST(Communicator, ARankThatDoesNotComeToACollectiveEndsItInTime) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Communicator axis(store, group_of_all(world, "dp"), within(milliseconds(300)));
        if (world.rank == 0) axis.barrier().wait();
        if (world.rank == 1) std::this_thread::sleep_for(milliseconds(1000));
      });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], HasSubstr("rank 0 (dp 0): barrier over ranks 0, 1 failed"));
  EXPECT_THAT(*messages[0], HasSubstr("timeout 0.3 s"));
}

TEST(Communicator, ARankThatThrowsEndsTheOthersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(3, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
      require<DataError>(world.rank != 2, "the file is damaged");
      axis.barrier().wait();
    });
    FAIL() << "no exception";
  } catch (const RankFailure& failure) {
    EXPECT_EQ(failure.rank, 2);
    EXPECT_STREQ(failure.what(), "rank 2: the file is damaged");
    EXPECT_THROW(std::rethrow_exception(failure.cause), DataError);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
}

}  // namespace
}  // namespace braid::comm
