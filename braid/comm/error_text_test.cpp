#include "braid/comm/error_text.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

// What Gloo and c10d throw, as they word it.
TEST(ErrorText, KnownMessagesAreTranslated) {
  const auto reason = [](const char* text) { return short_reason(std::runtime_error(text)); };
  EXPECT_EQ(reason("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
                   "[127.0.0.1]:47325"),
            "the rank at 127.0.0.1 has closed the connection");
  EXPECT_EQ(
      reason("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Read error [fe80::1]:7: Connection reset "
             "by peer. This is typically caused by upstream failures"),
      "the rank at fe80::1 has broken the connection");
  EXPECT_EQ(
      reason("[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation to "
             "complete"),
      "no answer within 3000 ms");
  EXPECT_EQ(reason("Broken pipe"), "another rank has closed the connection");
}

TEST(ErrorText, UnknownMessagesAreQuotedInOneLine) {
  EXPECT_EQ(short_reason(std::runtime_error("[a/b.cc:7] odd\x1b[31m thing\nframe #0: main")),
            "libtorch says 'odd [31m thing'");
}

TEST(ErrorText, BraidsOwnTextStays) {
  EXPECT_EQ(short_reason(CommError("rank 3 timed out")), "rank 3 timed out");
  try {
    C10_THROW_ERROR(DistStoreError, "store timeout after 300 ms waiting for key a");
  } catch (const std::exception& error) {
    EXPECT_EQ(short_reason(error), "store timeout after 300 ms waiting for key a");
  }
}

}  // namespace
}  // namespace braid::comm
