#include "braid/comm/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "braid/base/error.h"

namespace braid::comm::detail {
namespace {

using testing::HasSubstr;

Task failing(const std::function<void()>& run) {
  return {.name = "all_gather", .run = run, .result = {}, .tensors = {}};
}

std::string message_of(Operation& operation) {
  try {
    operation.wait();
  } catch (const CommError& error) {
    return error.what();
  }
  return "no CommError";
}

TEST(ThreadRunner, AFailureOfALibraryNamesTheCall) {
  const auto runner = make_thread_runner({.axis = "pp", .ranks = {0, 1}, .index = 0}, {});
  const auto lost = runner->start(failing([] { throw std::runtime_error("connection closed"); }));
  EXPECT_THAT(message_of(*lost), HasSubstr("rank 0 (pp 0): all_gather over ranks 0, 1 failed after "));
  const auto next = runner->start(failing([] {}));
  EXPECT_THAT(message_of(*next), HasSubstr("was not started, because the communicator had failed"));
}

TEST(ThreadRunner, OutOfMemoryIsNotBlamedOnAnotherRank) {
  const auto runner = make_thread_runner({.axis = "pp", .ranks = {0, 1}, .index = 0}, {});
  const auto first = runner->start(failing([] { throw std::bad_alloc(); }));
  EXPECT_THROW(first->wait(), std::bad_alloc);
  const auto next = runner->start(failing([] {}));
  EXPECT_THAT(message_of(*next), HasSubstr("this rank ran out of memory"));
}

}  // namespace
}  // namespace braid::comm::detail
