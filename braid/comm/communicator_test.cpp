#include "braid/comm/communicator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

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

        const at::Tensor whole = at::full({n, count}, -1, dtype);
        whole[world.rank].copy_(numbers(world.rank, count, dtype));
        EXPECT_TRUE(axis.all_gather_into(whole).wait().is_same(whole));
        EXPECT_TRUE(at::equal(whole, all));
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

// Random values of very different magnitudes, so that every order of addition yields different bits.
std::vector<at::Tensor> random_terms(int n, int64_t count, at::ScalarType dtype) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(count + 7 * n));
  std::vector<at::Tensor> terms;
  for (int rank = 0; rank < n; ++rank) {
    const at::Tensor scale = at::randn({count}, generator, at::kDouble).mul_(3).exp_();
    terms.push_back(at::randn({count}, generator, at::kDouble).mul_(scale).to(dtype));
  }
  return terms;
}

// In order; of 16-bit numbers in float32, rounded once.
at::Tensor plain_sum(const std::vector<at::Tensor>& terms) {
  const at::ScalarType dtype = terms.front().scalar_type();
  at::Tensor sum = terms.front().to(dtype == at::kBFloat16 ? at::kFloat : dtype, /*non_blocking=*/false,
                                    /*copy=*/true);
  for (size_t i = 1; i < terms.size(); ++i) sum.add_(terms[i]);
  return sum.to(dtype);
}

TEST_P(Collectives, SumInTheOrderOfTheAxisBitForBit) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const int64_t count : {0, 1, 2, 3, 5, 1000, 1001, 1002, 1003, 100'003}) {
        SCOPED_TRACE(testing::Message() << c10::toString(dtype) << " x " << count);
        const std::vector<at::Tensor> terms = random_terms(n, count, dtype);
        const at::Tensor expected = plain_sum(terms);
        if (n > 2 && count >= 1000 && dtype != at::kBFloat16) {
          const std::vector<at::Tensor> reversed(terms.rbegin(), terms.rend());
          EXPECT_FALSE(at::equal(plain_sum(reversed), expected)) << "the order makes no difference";
        }
        const at::Tensor sum = axis.all_reduce_sum(terms[static_cast<size_t>(world.rank)]).wait();
        EXPECT_EQ(std::memcmp(sum.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()), 0);
      }
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesThePartsOfTheSum) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "sharding"), within(kPlenty));
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const int64_t count : {0, 1, 2, 1000, 33'333}) {
        SCOPED_TRACE(testing::Message() << c10::toString(dtype) << ", parts of " << count);
        const std::vector<at::Tensor> terms = random_terms(n, n * count, dtype);
        const at::Tensor expected = plain_sum(terms).narrow(0, world.rank * count, count);
        const at::Tensor mine = terms[static_cast<size_t>(world.rank)].clone();
        const at::Tensor part = at::empty({count}, dtype);
        EXPECT_TRUE(axis.reduce_scatter_sum(mine, part).wait().is_same(part));
        EXPECT_EQ(std::memcmp(part.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()), 0);
        EXPECT_TRUE(at::equal(mine, terms[static_cast<size_t>(world.rank)])) << "the whole was modified";
      }
    }
  });
}

TEST(Communicator, PartsMustBeEqual) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "sharding"), within(kPlenty));
    const auto message = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const ShapeError& error) {
        return error.what();
      }
      return "no error";
    };
    const at::Tensor five = at::zeros({5}), four = at::zeros({4}), two = at::zeros({2});
    EXPECT_THAT(message([&] { axis.all_gather_into(five).wait(); }),
                HasSubstr("all_gather over the sharding axis needs a multiple of 2 elements, got 5"));
    EXPECT_THAT(message([&] { axis.reduce_scatter_sum(five, two).wait(); }),
                HasSubstr("reduce_scatter_sum over the sharding axis needs a multiple of 2 elements, got 5"));
    EXPECT_THAT(message([&] { axis.reduce_scatter_sum(four, four).wait(); }),
                HasSubstr("gives each 2 elements, but the result has 4 x float"));
    EXPECT_THAT(message([&] { axis.reduce_scatter_sum(four, two.to(at::kDouble)).wait(); }),
                HasSubstr("but the result has 2 x double"));
    axis.barrier().wait();  // none of them was started
  });
}

TEST_P(Collectives, KeepTheShapeOfTheTensors) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {3, 5}, {2, 0, 4}}) {
      std::vector<int64_t> gathered = sizes;
      gathered.insert(gathered.begin(), n);
      EXPECT_EQ(axis.all_gather(at::ones(sizes)).wait().sizes(), at::IntArrayRef(gathered));
      EXPECT_TRUE(at::equal(axis.all_reduce_sum(at::ones(sizes)).wait(), at::full(sizes, n, at::kFloat)));
    }
  });
}

struct Sent {
  std::vector<int64_t> all_reduce_sum;  // bytes of each member
  int64_t from_root;
  int64_t all_gather;
  int64_t all_gather_bytes;  // of strings that are 3 bytes at the longest
  int64_t barrier;
};

// For 10 float32 (40 bytes), by the number of members. Summed over the members, each all-reduce is 80 (n -
// 1).
const std::map<int, Sent> kSent = {{1, {{0}, 0, 0, 0, 0}},
                                   {2, {{40, 40}, 40, 40, 11, 1}},
                                   {3, {{56, 52, 52}, 80, 80, 22, 2}},
                                   {4, {{64, 64, 56, 56}, 120, 120, 33, 3}}};

TEST_P(Collectives, CountCallsAndBytesByTheFormulas) {
  const int n = GetParam();
  for (const CallCheck check : {CallCheck::kOn, CallCheck::kOff}) {
    run_ranks(n, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      const Sent& sent = kSent.at(n);
      Communicator axis(store, group_of_all(world, "dp"), within(kPlenty), check);
      EXPECT_EQ(axis.traffic(), CollectiveTraffic{}) << "connecting is counted";
      const at::Tensor tensor = at::ones({2, 5});
      axis.all_reduce_sum(tensor).wait();
      EXPECT_EQ(axis.traffic(),
                (CollectiveTraffic{{{Collective::kAllReduceSum,
                                     {1, sent.all_reduce_sum[static_cast<size_t>(world.rank)]}}}}));

      const CollectiveTraffic before = axis.traffic();
      const int64_t bytes = world.rank == n - 1 ? sent.from_root : 0;
      for (int i = 0; i < 3; ++i) axis.broadcast(tensor, n - 1).wait();
      axis.all_gather(tensor).wait();
      axis.barrier().wait();
      axis.all_reduce_sum(at::ones({0})).wait();
      EXPECT_EQ(axis.traffic() - before, (CollectiveTraffic{{{Collective::kAllReduceSum, {1, 0}},
                                                             {Collective::kBroadcast, {3, 3 * bytes}},
                                                             {Collective::kAllGather, {1, sent.all_gather}},
                                                             {Collective::kBarrier, {1, sent.barrier}}}}));

      const CollectiveTraffic then = axis.traffic();
      axis.all_gather_bytes(world.rank == 0 ? "abc" : "");
      EXPECT_EQ(axis.traffic() - then,
                (CollectiveTraffic{{{Collective::kAllGather, {2, sent.all_gather_bytes}}}}));

      const CollectiveTraffic later = axis.traffic();
      axis.reduce_scatter_sum(at::ones({n, 5}), at::ones({5})).wait();
      axis.all_gather_into(at::ones({n, 5})).wait();
      EXPECT_EQ(axis.traffic() - later,
                (CollectiveTraffic{{{Collective::kReduceScatterSum, {1, (n - 1) * 20}},
                                    {Collective::kAllGather, {1, (n - 1) * 20}}}}));
    });
  }
}

TEST_P(Collectives, SendWhatIsCountedAndNoMore) {
  const int n = GetParam();
  constexpr int64_t kNumel = 3 << 18;
  const std::map<const char*, std::function<Work(Communicator&, const at::Tensor&)>> calls = {
      {"all_reduce_sum", [](Communicator& axis, const at::Tensor& t) { return axis.all_reduce_sum(t); }},
      {"broadcast", [](Communicator& axis, const at::Tensor& t) { return axis.broadcast(t, 0); }},
      {"reduce_scatter_sum",
       [](Communicator& axis, const at::Tensor& t) {
         return axis.reduce_scatter_sum(t, at::empty({t.numel() / axis.size()}));
       }},
      {"all_gather", [](Communicator& axis, const at::Tensor& t) { return axis.all_gather(t); }},
      {"all_gather_into", [](Communicator& axis, const at::Tensor& t) { return axis.all_gather_into(t); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    std::atomic<int64_t> counted = 0;
    int64_t sent = 0;
    run_ranks(n, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
      Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
      if (world.rank == 0) sent -= bytes_sent_over_tcp();
      axis.barrier().wait();
      call(axis, at::ones({kNumel})).wait();
      for (const auto& [collective, tally] : axis.traffic().tallies) counted += tally.bytes;
      axis.barrier().wait();
      if (world.rank == 0) sent += bytes_sent_over_tcp();
      axis.barrier().wait();
    });
    EXPECT_GE(sent, counted);
    EXPECT_LE(sent, counted + counted / 100)
        << "headers, and the barriers around the call, take less than a hundredth";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::Range(1, 5));

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

TEST(Communicator, UnsuitableTensorsAreRejected) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Communicator axis(store, group_of_all(world, "dp"), within(kPlenty));
    at::Tensor transposed = at::zeros({2, 3}).t();
    EXPECT_THROW((void)axis.all_reduce_sum(transposed), ShapeError);
    EXPECT_THROW((void)axis.all_gather(transposed), ShapeError);
    EXPECT_THROW((void)axis.all_gather(at::Tensor()), ShapeError);
    EXPECT_THROW((void)axis.broadcast(transposed, 1), ShapeError);
    EXPECT_THROW((void)axis.broadcast(transposed, 2), InternalError);
    EXPECT_EQ(axis.traffic(), CollectiveTraffic{});
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

TEST(Communicator, RanksOfOneMachineUseTheLoopbackDevice) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    // An address of no machine, which Gloo could not listen on.
    Communicator axis(store, group_of_all(world, "dp"), {.timeout = kPlenty, .local_address = "192.0.2.1"});
    at::Tensor one = at::ones({1});
    axis.all_reduce_sum(one).wait();
    EXPECT_EQ(one.item<float>(), 2.0f);
  });
}

TEST(Communicator, ALateRankMakesTheOthersTimeOutWithItsName) {
  const auto messages =
      run_failing_ranks(3, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        if (world.rank == 1) std::this_thread::sleep_for(milliseconds(600));
        if (world.rank != 1) Communicator(store, group_of_all(world, "dp"), within(milliseconds(200)));
      });
  EXPECT_FALSE(messages[1].has_value());
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0], HasSubstr("rank 0 (dp 0) waited 0.2 s to connect to rank 1 (dp 1)"));
}

// A store whose rank 0 ends before this rank's request with the given number, counted from 0.
class StoreLostAtRequest : public c10d::PrefixStore {
 public:
  StoreLostAtRequest(c10::intrusive_ptr<c10d::Store> store, int number)
      : PrefixStore("", std::move(store)), left_(number) {}
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    count();
    PrefixStore::set(key, value);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    count();
    return PrefixStore::get(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    count();
    PrefixStore::wait(keys, timeout);
  }
  bool check(const std::vector<std::string>& keys) override {
    count();
    return PrefixStore::check(keys);
  }

 private:
  void count() {
    if (left_-- <= 0)
      C10_THROW_ERROR(DistStoreError, "the store of rank 0 is lost: the connection was closed");
  }
  int left_;
};

TEST(Communicator, ALostStoreIsACommErrorAtEveryRequest) {
  constexpr int kRequests = 4;  // its own key, the wait for both, and their values
  for (int lost = 0; lost < kRequests; ++lost) {
    try {
      run_ranks(2, [&](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        const auto own = c10::make_intrusive<StoreLostAtRequest>(store, world.rank == 1 ? lost : 1'000'000);
        Communicator(own, group_of_all(world, "dp"), within(kPlenty));
      });
      ADD_FAILURE() << "request " << lost << " was not made";
    } catch (const RankFailure& failure) {
      EXPECT_THROW(std::rethrow_exception(failure.cause), CommError) << "request " << lost;
      EXPECT_THAT(
          failure.what(),
          HasSubstr("rank 1 (dp 1) lost the store: the store of rank 0 is lost: the connection was closed"));
    }
  }
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
