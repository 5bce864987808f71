#include "braid/comm/pipeline_link.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <sstream>
#include <thread>

#include "braid/base/error.h"
#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPlenty = milliseconds(30'000);
constexpr std::array kKinds = {MessageKind::kTiedGradient, MessageKind::kActivation, MessageKind::kGradient};
const auto kNoDescription = [] { return std::string("a message"); };

PipelineLinkOptions options_for(std::vector<MessageFormat> formats, milliseconds timeout = kPlenty) {
  return {.backend = {.timeout = timeout}, .formats = std::move(formats), .edges = {}};
}

// Different for every sender, kind and tag.
at::Tensor content(MessageFormat format, int from, MessageKind kind, int64_t tag) {
  const int64_t seed = 17 * from + 5 * static_cast<int64_t>(kind) + 3 * tag;
  // Whole numbers up to 255, which all dtypes here hold exactly.
  return at::arange(format.numel, at::kInt).add_(seed).bitwise_and_(255).to(format.dtype);
}

TEST(RingEdges, AreBothDirectionsOfEachNeighbour) {
  EXPECT_TRUE(ring_edges(1).empty());
  EXPECT_EQ(ring_edges(2), (std::vector<Edge>{{0, 1}, {1, 0}}));
  EXPECT_EQ(ring_edges(3), (std::vector<Edge>{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}));
  EXPECT_EQ(ring_edges(5).size(), 10u);
}

TEST(PipelineLink, OneStageHasNoEdges) {
  run_ranks(1, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 1}}));
    EXPECT_THROW((void)link.send(at::zeros({1}), 0, MessageKind::kActivation, 0), InternalError);
  });
}

// Every rank sends an activation up the ring and a gradient down it, all at once, in each size and dtype.
class Messages : public testing::TestWithParam<int> {};

TEST_P(Messages, OfEverySizeAndDtypeGoBothWaysAtOnce) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const std::vector<MessageFormat> formats = {
        {at::kFloat, 0},      {at::kFloat, 1},          {at::kBFloat16, 3},   {at::kLong, 1000},
        {at::kFloat, 65'537}, {at::kBFloat16, 1 << 20}, {at::kFloat, 4 << 20}};
    PipelineLink link(store, group_of_all(world, "pp"), options_for(formats));
    const int up = (world.rank + 1) % n;
    const int down = (world.rank + n - 1) % n;
    for (const MessageFormat& format : formats) {
      SCOPED_TRACE(testing::Message() << format.numel << " x " << c10::toString(format.dtype));
      std::vector<Pending> pending;
      pending.push_back(link.send(content(format, world.rank, MessageKind::kActivation, 1), up,
                                  MessageKind::kActivation, 1));
      pending.push_back(
          link.send(content(format, world.rank, MessageKind::kGradient, 1), down, MessageKind::kGradient, 1));
      at::Tensor activation = at::full({format.numel}, -1, format.dtype);
      at::Tensor gradient = activation.clone();
      link.receive(activation, down, MessageKind::kActivation, 1).wait(kNoDescription);
      link.receive(gradient, up, MessageKind::kGradient, 1).wait(kNoDescription);
      for (Pending& one : pending) {
        EXPECT_FALSE(one.done());
        one.wait(kNoDescription);
        EXPECT_TRUE(one.done());
        one.wait(kNoDescription);  // a second wait returns immediately
      }
      EXPECT_TRUE(at::equal(activation, content(format, down, MessageKind::kActivation, 1)));
      EXPECT_TRUE(at::equal(gradient, content(format, up, MessageKind::kGradient, 1)));
    }
  });
}

TEST_P(Messages, AreMatchedByKindAndTagInAnyOrder) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const MessageFormat format = {at::kFloat, 5000};
    PipelineLink link(store, group_of_all(world, "pp"), options_for({format}));
    const int up = (world.rank + 1) % n;
    const int down = (world.rank + n - 1) % n;
    constexpr int64_t kMany = 40;
    std::vector<Pending> sends;
    for (int64_t tag = 0; tag < kMany; ++tag) {
      for (const MessageKind kind : kKinds) {
        sends.push_back(link.send(content(format, world.rank, kind, tag), up, kind, kTagCount - 1 - tag));
      }
    }
    std::vector<at::Tensor> arrived;
    std::vector<Pending> receives;
    for (int64_t i = 0; i < kMany; ++i) {
      const int64_t tag = (i * 23) % kMany;
      for (const MessageKind kind : kKinds) {
        arrived.push_back(at::empty({format.numel}));
        receives.push_back(link.receive(arrived.back(), down, kind, kTagCount - 1 - tag));
      }
    }
    for (size_t i = receives.size(); i-- > 0;) {
      receives[i].wait(kNoDescription);
      const int64_t tag = (static_cast<int64_t>(i / kKinds.size()) * 23) % kMany;
      const MessageKind kind = kKinds[i % kKinds.size()];
      EXPECT_TRUE(at::equal(arrived[i], content(format, down, kind, tag))) << i;
    }
    for (Pending& one : sends) one.wait(kNoDescription);
  });
}

// Rank r sends r + 1 activations up the ring and one gradient down it, in float32; the ends exchange a tied
// gradient in bfloat16.
TEST_P(Messages, AreCountedByDirectionPeerAndKind) {
  const int n = GetParam();
  run_ranks(n, [n](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 100}, {at::kBFloat16, 7}}));
    EXPECT_EQ(link.traffic(), MessageTraffic{}) << "connecting is counted";
    const int up = (world.rank + 1) % n;
    const int down = (world.rank + n - 1) % n;
    std::vector<Pending> pending;
    for (int i = 0; i <= world.rank; ++i)
      pending.push_back(link.send(at::ones({100}), up, MessageKind::kActivation, i));
    pending.push_back(link.send(at::ones({100}), down, MessageKind::kGradient, 0));
    for (int i = 0; i <= down; ++i)
      pending.push_back(link.receive(at::ones({100}), down, MessageKind::kActivation, i));
    pending.push_back(link.receive(at::ones({100}), up, MessageKind::kGradient, 0));
    for (Pending& one : pending) one.wait(kNoDescription);
    MessageTraffic expected = {
        {{{Direction::kSend, up, MessageKind::kActivation}, {world.rank + 1, 400 * (world.rank + 1)}},
         {{Direction::kSend, down, MessageKind::kGradient}, {1, 400}},
         {{Direction::kReceive, down, MessageKind::kActivation}, {down + 1, 400 * (down + 1)}},
         {{Direction::kReceive, up, MessageKind::kGradient}, {1, 400}}}};
    EXPECT_EQ(link.traffic(), expected);

    const MessageTraffic before = link.traffic();
    if (world.rank == 0 || world.rank == n - 1) {
      const int peer = n - 1 - world.rank;
      Pending sent = link.send(at::ones({7}, at::kBFloat16), peer, MessageKind::kTiedGradient, 0);
      link.receive(at::ones({7}, at::kBFloat16), peer, MessageKind::kTiedGradient, 0).wait(kNoDescription);
      sent.wait(kNoDescription);
      EXPECT_EQ(link.traffic() - before,
                (MessageTraffic{{{{Direction::kSend, peer, MessageKind::kTiedGradient}, {1, 14}},
                                 {{Direction::kReceive, peer, MessageKind::kTiedGradient}, {1, 14}}}}));
    }
    EXPECT_THROW((void)link.send(at::ones({8}), up, MessageKind::kActivation, 0), ShapeError);
    EXPECT_EQ((link.traffic() - before).tallies.size(), world.rank == 0 || world.rank == n - 1 ? 2u : 0u)
        << "unsent messages are counted";
  });
}

TEST(MessageTraffic, ReadsLikeTheEdges) {
  const MessageTraffic traffic = {{{{Direction::kSend, 1, MessageKind::kActivation}, {8, 800}},
                                   {{Direction::kReceive, 0, MessageKind::kTiedGradient}, {1, 14}}}};
  std::ostringstream text;
  text << traffic;
  EXPECT_EQ(text.str(), "to stage 1: activation: 8 x, 800 bytes; from stage 0: tied gradient: 1 x, 14 bytes");
}

INSTANTIATE_TEST_SUITE_P(Stages, Messages, testing::Range(2, 5));

TEST(PipelineLink, SendsAreNotHeldUpByReceivesThatComeLater) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    const MessageFormat large = {at::kFloat, 4 << 20};
    PipelineLink link(store, group_of_all(world, "pp"), options_for({large}));
    const int other = 1 - world.rank;
    at::Tensor first = at::empty({large.numel});
    at::Tensor second = at::empty({large.numel});
    // Tag 2 is received before tag 1, whose sender began first and whose receive is posted last.
    Pending one = link.send(content(large, world.rank, MessageKind::kActivation, 1), other,
                            MessageKind::kActivation, 1);
    Pending two = link.send(content(large, world.rank, MessageKind::kActivation, 2), other,
                            MessageKind::kActivation, 2);
    link.receive(second, other, MessageKind::kActivation, 2).wait(kNoDescription);
    link.receive(first, other, MessageKind::kActivation, 1).wait(kNoDescription);
    one.wait(kNoDescription);
    two.wait(kNoDescription);
    EXPECT_TRUE(at::equal(first, content(large, other, MessageKind::kActivation, 1)));
    EXPECT_TRUE(at::equal(second, content(large, other, MessageKind::kActivation, 2)));
  });
}

TEST(PipelineLink, RejectsMessagesThatWereNotAgreedUpon) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 6}}));
    const int other = 1 - world.rank;
    EXPECT_THROW((void)link.send(at::zeros({7}), other, MessageKind::kActivation, 0), ShapeError);
    EXPECT_THROW((void)link.send(at::zeros({6}, at::kDouble), other, MessageKind::kActivation, 0),
                 ShapeError);
    EXPECT_THROW((void)link.send(at::zeros({2, 3}).t(), other, MessageKind::kActivation, 0), ShapeError);
    EXPECT_THROW((void)link.receive(at::zeros({6}), other, MessageKind::kActivation, kTagCount),
                 InternalError);
    EXPECT_THROW((void)link.receive(at::zeros({6}), world.rank, MessageKind::kActivation, 0), InternalError);
  });
  run_ranks(1, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    EXPECT_THROW(PipelineLink(store, group_of_all(world, "pp"), options_for({})), ConfigError);
    EXPECT_THROW(PipelineLink(store, group_of_all(world, "pp"), options_for(std::vector<MessageFormat>(17))),
                 ConfigError);
  });
}

TEST(PipelineLink, BothEndsHearThatTheirFormatsDiffer) {
  const auto messages =
      run_failing_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        PipelineLink(store, group_of_all(world, "pp"),
                     options_for({{world.rank == 0 ? at::kFloat : at::kBFloat16, 8}}));
      });
  for (const auto& message : messages) {
    ASSERT_TRUE(message.has_value());
    EXPECT_THAT(*message, HasSubstr("the edge from rank"));
    EXPECT_THAT(*message, HasSubstr("8 x Float"));
    EXPECT_THAT(*message, HasSubstr("8 x BFloat16"));
  }
}

TEST(PipelineLink, AnEdgeThatOneEndDoesNotKnowIsNamed) {
  const auto messages =
      run_failing_ranks(3, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        PipelineLinkOptions options = options_for({{at::kFloat, 8}}, milliseconds(400));
        options.edges = {{.from = 0, .to = 1}, {.from = 0, .to = 2}};
        if (world.rank == 1) options.edges.push_back({.from = 1, .to = 2});
        const PipelineLink link(store, group_of_all(world, "pp"), options);
        std::this_thread::sleep_for(milliseconds(800));
      });
  ASSERT_TRUE(messages[1].has_value());
  EXPECT_THAT(*messages[1],
              HasSubstr("the edge from rank 1 (pp 1) to rank 2 (pp 2) does not work (tried for 0.4 s)"));
}

TEST(PipelineLink, TimeoutsNameRankPeerActionAndTime) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages = run_failing_ranks(2, [](const World& world,
                                                const c10::intrusive_ptr<c10d::Store>& store) {
    // Stage 0 is global rank 10, to check that both numbers are reported.
    const Group group = {.axis = "pp", .ranks = {10, 11}, .index = world.rank};
    PipelineLink link(store, group, options_for({{at::kFloat, 8}}, milliseconds(400)));
    if (world.rank == 1) {
      link.receive(at::empty({8}), 0, MessageKind::kActivation, 3).wait([] {
        return "RECV_F of microbatch 3";
      });
    } else {
      std::this_thread::sleep_for(milliseconds(1200));
      EXPECT_THROW(link.send(at::zeros({8}), 1, MessageKind::kActivation, 4).wait(kNoDescription), CommError);
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  ASSERT_TRUE(messages[1].has_value());
  EXPECT_THAT(
      *messages[1],
      HasSubstr("rank 11 (pp 1) waited 0.4 s for RECV_F of microbatch 3 from rank 10 (pp 0): no answer "
                "within the timeout"));
  EXPECT_FALSE(messages[0].has_value()) << *messages[0];
}

TEST(PipelineLink, ASendWithoutReceiverTimesOutToo) {
  const auto messages = run_failing_ranks(2, [](const World& world,
                                                const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 8}}, milliseconds(300)));
    if (world.rank == 0)
      link.send(at::zeros({8}), 1, MessageKind::kGradient, 0).wait([] { return "SEND_B of microbatch 0"; });
    if (world.rank == 1) std::this_thread::sleep_for(milliseconds(900));
  });
  ASSERT_TRUE(messages[0].has_value());
  EXPECT_THAT(*messages[0],
              HasSubstr("rank 0 (pp 0) waited 0.3 s for SEND_B of microbatch 0 to rank 1 (pp 1): no answer"));
}

TEST(PipelineLink, AfterAFailureTheLinkSaysWhatFailedFirst) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 8}}, milliseconds(300)));
    if (world.rank == 0) {
      EXPECT_THROW(link.receive(at::empty({8}), 1, MessageKind::kGradient, 0).wait([] { return "RECV_B"; }),
                   CommError);
      try {
        (void)link.send(at::zeros({8}), 1, MessageKind::kActivation, 0);
        ADD_FAILURE() << "accepted";
      } catch (const CommError& error) {
        EXPECT_THAT(error.what(), HasSubstr("failed earlier: rank 0 (pp 0) waited 0.3 s for RECV_B"));
      }
    } else {
      std::this_thread::sleep_for(milliseconds(600));
    }
  });
}

TEST(PipelineLink, ARankThatThrowsEndsItsPeersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  const auto messages =
      run_failing_ranks(4, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
        PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 4 << 20}}));
        if (world.rank == 0) throw DataError("the file is damaged");
        at::Tensor tensor = at::zeros({4 << 20});
        link.receive(tensor, world.rank - 1, MessageKind::kActivation, 0).wait([] {
          return "RECV_F of microbatch 0";
        });
      });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  EXPECT_EQ(messages[0], "the file is damaged");
  ASSERT_TRUE(messages[1] && messages[2] && messages[3]);
  EXPECT_THAT(*messages[1], HasSubstr("from rank 0 (pp 0): rank 0 ended or gave up"));
}

TEST(PipelineLink, PendingMessagesMayOutliveTheLinkAndBeDropped) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    Pending late;
    {
      PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 1 << 20}}));
      Communicator pp(store, group_of_all(world, "pp"), {.timeout = kPlenty});
      const int other = 1 - world.rank;
      {
        const Pending dropped_receive =
            link.receive(at::empty({1 << 20}), other, MessageKind::kActivation, 0);
        const Pending dropped_send = link.send(at::ones({1 << 20}), other, MessageKind::kActivation, 0);
        const Pending never_matched = link.receive(at::empty({1 << 20}), other, MessageKind::kActivation, 1);
      }
      // The dropped messages do not interfere with this one.
      at::Tensor tensor = at::zeros({1 << 20});
      Pending sent = link.send(at::full({1 << 20}, 7.0f), other, MessageKind::kActivation, 2);
      link.receive(tensor, other, MessageKind::kActivation, 2).wait(kNoDescription);
      sent.wait(kNoDescription);
      EXPECT_EQ(tensor.sum().item<float>(), 7.0f * (1 << 20));
      late = link.send(at::ones({1 << 20}), other, MessageKind::kGradient, 0);
      pp.barrier().wait();
    }
    EXPECT_FALSE(late.done());
  });
}

TEST(PipelineLink, AMessageThatArrivedBeforeItsSenderEndedIsGood) {
  run_ranks(2, [](const World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    PipelineLink link(store, group_of_all(world, "pp"), options_for({{at::kFloat, 1000}}));
    if (world.rank == 0) {
      link.send(at::ones({1000}), 1, MessageKind::kActivation, 0).wait(kNoDescription);
    } else {
      at::Tensor tensor = at::zeros({1000});
      Pending pending = link.receive(tensor, 0, MessageKind::kActivation, 0);
      std::this_thread::sleep_for(milliseconds(300));  // by now rank 0's link has ended
      pending.wait(kNoDescription);
      EXPECT_EQ(tensor.sum().item<float>(), 1000.0f);
    }
  });
}

}  // namespace
}  // namespace braid::comm
