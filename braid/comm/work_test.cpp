#include "braid/comm/work.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <type_traits>

#include "braid/base/error.h"
#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPlenty = milliseconds(30'000);
constexpr int64_t kLarge = 1 << 20;

static_assert(!std::is_copy_constructible_v<Work> && std::is_nothrow_move_constructible_v<Work> &&
              std::is_nothrow_move_assignable_v<Work> && std::is_nothrow_destructible_v<Work>);

TEST(Work, IsEmptyByDefaultOnceMovedFromAndOnceWaitedFor) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Work none;
    EXPECT_TRUE(none.done());
    EXPECT_FALSE(none.wait().defined());

    Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
    Work begun = axis.all_reduce_sum(at::ones({5}));
    EXPECT_FALSE(begun.done());
    Work moved = std::move(begun);
    EXPECT_TRUE(begun.done());  // NOLINT(bugprone-use-after-move): the subject of the test
    EXPECT_FALSE(moved.done());
    EXPECT_TRUE(at::equal(moved.wait(), at::full({5}, 2.0f)));
    EXPECT_TRUE(moved.done());
    EXPECT_FALSE(moved.wait().defined());
  });
}

TEST(Work, StartingDoesNotWaitForOtherMembers) {
  std::promise<void> started;
  run_ranks(2, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
    if (world.rank == 1) started.get_future().wait();
    at::Tensor tensor = at::ones({kLarge});
    Work sum = axis.all_reduce_sum(tensor);
    Work copy = axis.broadcast(at::full({3}, world.rank, at::kLong), 1);
    Work all = axis.all_gather(at::full({2}, world.rank, at::kLong));
    Work barrier = axis.barrier();
    if (world.rank == 0) started.set_value();
    barrier.wait();
    EXPECT_TRUE(at::equal(all.wait(), at::tensor({0, 0, 1, 1}, at::kLong).view({2, 2})));
    EXPECT_TRUE(at::equal(copy.wait(), at::full({3}, 1, at::kLong)));
    EXPECT_TRUE(sum.wait().is_same(tensor)) << "the sum is computed in place";
    EXPECT_TRUE(at::equal(tensor, at::full({kLarge}, 2.0f)));
  });
}

TEST(Work, ManyMayBeUnderWayAndBeWaitedForInAnyOrder) {
  for (const int n : {2, 4}) {
    run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
      std::vector<Work> sums;
      for (int i = 0; i < 20; ++i) sums.push_back(axis.all_reduce_sum(at::full({1000 * i}, world.rank + i)));
      if (world.rank % 2 == 0) std::reverse(sums.begin(), sums.end());
      for (int k = 0; k < 20; ++k) {
        const int i = world.rank % 2 == 0 ? 19 - k : k;
        EXPECT_TRUE(
            at::equal(sums[static_cast<size_t>(k)].wait(), at::full({1000 * i}, n * i + n * (n - 1) / 2)));
      }
    });
  }
}

TEST(Work, DroppedItRunsOnForTheOthersAndKeepsItsTensors) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
    at::Tensor kept = at::ones({kLarge});
    if (world.rank == 0) {
      { const Work dropped = axis.all_reduce_sum(at::full({kLarge}, 6.0f)); }
      { const Work dropped = axis.all_reduce_sum(kept); }
      Work overwritten = axis.all_gather(at::full({kLarge}, 8.0f));
      overwritten = axis.barrier();
      overwritten.wait();
      EXPECT_TRUE(at::equal(kept, at::full({kLarge}, 2.0f)));
    } else {
      EXPECT_TRUE(at::equal(axis.all_reduce_sum(at::ones({kLarge})).wait(), at::full({kLarge}, 7.0f)));
      axis.all_reduce_sum(kept).wait();
      EXPECT_TRUE(at::equal(axis.all_gather(kept).wait()[0], at::full({kLarge}, 8.0f)));
      axis.barrier().wait();
    }
  });
}

TEST(Work, MayOutliveItsCommunicator) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Work late;
    {
      Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
      late = axis.all_reduce_sum(at::ones({kLarge}));
    }
    EXPECT_TRUE(at::equal(late.wait(), at::full({kLarge}, 2.0f)));
  });
}

TEST(Work, TakesTensorsOfAnyAutogradMode) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
    at::Tensor leaf = at::ones({4}).requires_grad_();
    axis.all_reduce_sum(leaf).wait();
    EXPECT_TRUE(at::equal(leaf, at::full({4}, 2.0f)));
    at::Tensor inference;
    Work work;
    {
      const c10::InferenceMode mode;
      inference = at::ones({4});
      work = axis.all_reduce_sum(inference);
    }
    work.wait();
    EXPECT_TRUE(at::equal(inference, at::full({4}, 2.0f)));
  });
}

TEST(Work, AfterAFailureTheOthersFailWithItAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Communicator axis(store, group_of_all(world, "dp"), {.timeout = milliseconds(300)});
        if (world.rank == 1) std::this_thread::sleep_for(milliseconds(1500));
        if (world.rank == 0) {
          Work first = axis.all_reduce_sum(at::ones({8}));
          Work second = axis.all_gather(at::ones({8}));
          const Work dropped = axis.all_reduce_sum(at::ones({8}));
          EXPECT_THROW(first.wait(), CommError);
          const auto failed = std::chrono::steady_clock::now();
          EXPECT_THROW(second.wait(), CommError);
          EXPECT_THROW(axis.barrier().wait(), CommError);
          EXPECT_LT(std::chrono::steady_clock::now() - failed, milliseconds(100));
          axis.broadcast(at::ones({8}), 1).wait();
        }
      });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0],
              testing::StartsWith(
                  "rank 0 (dp 0): broadcast over ranks 0, 1 was not started, because the communicator "
                  "had failed: rank 0 (dp 0): all_reduce_sum over ranks 0, 1 failed after 0."));
  EXPECT_FALSE(messages[1].has_value()) << *messages[1];
}

TEST(Work, OfAMemberThatEndsInAnErrorEndsToo) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty});
        Work work = axis.all_reduce_sum(at::ones({kLarge}));
        if (world.rank == 1) throw DataError("the file is damaged");
        EXPECT_TRUE(at::equal(work.wait(), at::full({kLarge}, 2.0f))) << "it continued";
        axis.barrier().wait();
      });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  EXPECT_EQ(messages[1], "the file is damaged");
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], HasSubstr("barrier over ranks 0, 1 failed"));
}

}  // namespace
}  // namespace braid::comm
