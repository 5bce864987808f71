#include "braid/comm/operation.h"

#include <chrono>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/comm/error_text.h"

namespace braid::comm::detail {
namespace {

using Clock = std::chrono::steady_clock;

class EndedOperation final : public Operation {
 public:
  explicit EndedOperation(at::Tensor result) : result_(std::move(result)) {}
  at::Tensor wait() override { return std::move(result_); }

 private:
  at::Tensor result_;
};

std::string ranks_text(const Group& group) {
  std::string text;
  for (const int rank : group.ranks) text += cat(text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

std::shared_ptr<Operation> ended_operation(at::Tensor result) {
  return std::make_shared<EndedOperation>(std::move(result));
}

std::exception_ptr Runner::perform(const Task& task) {
  const std::string call =
      cat(member_name(group_, group_.index), ": ", task.name, " over ranks ", ranks_text(group_));
  if (first_failure_)
    return std::make_exception_ptr(
        CommError(cat(call, " was not started, because the communicator had failed: ", *first_failure_)));
  const Clock::time_point begin = Clock::now();
  try {
    task.run();
    return nullptr;
  } catch (const CommError& error) {
    first_failure_ = error.what();
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      first_failure_ = "this rank ran out of memory";
      return std::current_exception();
    }
    const std::chrono::duration<double> waited = Clock::now() - begin;
    first_failure_ = cat(call, " failed after ", fixed(waited.count(), 1), " s (timeout ",
                         static_cast<double>(options_.timeout.count()) / 1000.0, " s): ", short_reason(error),
                         "; see the logs of the other ranks");
  }
  return std::make_exception_ptr(CommError(*first_failure_));
}

}  // namespace braid::comm::detail
