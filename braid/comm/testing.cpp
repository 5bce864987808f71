#include "braid/comm/testing.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "braid/base/error.h"

namespace braid::comm {
namespace {

// A store in memory whose waits end when a rank has failed.
class ThreadsStore : public c10d::HashStore {
 public:
  void give_up() { given_up_ = true; }

  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }

  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!check(keys)) {
      require<CommError>(!given_up_, "another rank of the test has failed");
      require<CommError>(std::chrono::steady_clock::now() < deadline, "store timeout waiting for ",
                         keys.front());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::vector<uint8_t> get(const std::string& key) override {
    wait({key}, timeout_);
    return HashStore::get(key);
  }

  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    wait(keys, timeout_);
    return HashStore::multiGet(keys);
  }

 private:
  std::atomic<bool> given_up_ = false;
};

struct Outcome {
  std::vector<std::exception_ptr> exceptions;  // by rank, null where there was none
  std::vector<int> failed;                     // ranks that threw, in order of time
};

Outcome run_threads(int n, const RankBody& body) {
  const auto store = c10::make_intrusive<ThreadsStore>();
  Outcome outcome;
  outcome.exceptions.resize(static_cast<size_t>(n));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      const World world = {.rank = rank,
                           .world_size = n,
                           .local_rank = rank,
                           .local_world_size = n,
                           .source = "threads of one process"};
      try {
        body(world, store);
      } catch (...) {
        const std::lock_guard lock(mutex);
        outcome.exceptions[static_cast<size_t>(rank)] = std::current_exception();
        outcome.failed.push_back(rank);
        store->give_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

bool is_comm_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string message_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "not a std::exception";
  }
}

}  // namespace

void run_ranks(int n, const RankBody& body) {
  const Outcome outcome = run_threads(n, body);
  if (outcome.failed.empty()) return;
  // A rank's connections close before its exception arrives here, so its peers may arrive first, with a
  // CommError.
  const auto no_comm_error = std::find_if(outcome.failed.begin(), outcome.failed.end(), [&](int rank) {
    return !is_comm_error(outcome.exceptions[static_cast<size_t>(rank)]);
  });
  const int culprit = no_comm_error == outcome.failed.end() ? outcome.failed.front() : *no_comm_error;
  const std::exception_ptr& cause = outcome.exceptions[static_cast<size_t>(culprit)];
  throw RankFailure(culprit, cat("rank ", culprit, ": ", message_of(cause)), cause);
}

std::vector<std::optional<std::string>> run_failing_ranks(int n, const RankBody& body) {
  std::vector<std::optional<std::string>> messages;
  for (const std::exception_ptr& exception : run_threads(n, body).exceptions) {
    messages.push_back(exception ? std::optional(message_of(exception)) : std::nullopt);
  }
  return messages;
}

std::vector<int> tcp_sockets() {
  std::vector<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) sockets.push_back(fd);
  }
  return sockets;
}

int64_t bytes_sent_over_tcp() {
  int64_t sent = 0;
  for (const int fd : tcp_sockets()) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
      sent += static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  }
  return sent;
}

}  // namespace braid::comm
