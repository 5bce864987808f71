#include "braid/comm/store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/address.h"
#include "braid/comm/broken_pipe.h"
#include "braid/comm/error_text.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string seconds_text(milliseconds time) {
  return cat(to_text(static_cast<double>(time.count()) / 1000.0), " s");
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

c10::intrusive_ptr<c10d::Store> host_store(const World& world, milliseconds timeout) {
  FileDescriptor listener = world.master_listen_fd ? FileDescriptor(*world.master_listen_fd)
                                                   : listen_on(world.master_addr, world.master_port);
  require<CommError>(bound_port(listener.get()) == world.master_port,
                     "BRAID_MASTER_LISTEN_FD is a socket on port ", bound_port(listener.get()),
                     ", but MASTER_PORT is ", world.master_port);
  std::string address = bound_address(listener.get());
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.isServer = true;
  options.waitWorkers = false;  // the handshake waits, and names the missing ranks
  options.timeout = timeout;
  options.masterListenFd = listener.release();
  return c10::make_intrusive<c10d::TCPStore>(std::move(address), options);
}

// The address at which rank 0 answers. Trying a plain socket first keeps the time limit exact and the reason
// clear.
std::string find_host(const World& world, Clock::time_point deadline, milliseconds timeout) {
  milliseconds pause(20);
  std::string reason;
  do {
    try {
      for (const std::string& address : resolve_host(world.master_addr)) {
        const std::optional<std::string> rejection =
            try_connect(address, world.master_port, std::min(left_until(deadline), milliseconds(5000)));
        if (!rejection) return address;
        reason = *rejection;
      }
    } catch (const CommError& error) {
      reason = error.what();  // a name service may start later than the ranks
    }
    std::this_thread::sleep_for(std::min(pause, left_until(deadline)));
    pause = std::min(pause * 2, milliseconds(500));
  } while (Clock::now() < deadline);
  throw CommError(cat("rank ", world.rank, " found no rank 0 at ", world.master_addr, " port ",
                      world.master_port, " within ", seconds_text(timeout), " (", reason,
                      "): is rank 0 running, and are MASTER_ADDR and MASTER_PORT correct?"));
}

c10::intrusive_ptr<c10d::Store> join_store(const World& world, milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  std::string address = find_host(world, deadline, timeout);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.waitWorkers = false;
  options.timeout = timeout;
  // The client waits indefinitely for the server's first message, which another program on that port never
  // sends. So it starts in a thread of its own, which is abandoned in that case: it holds only a socket.
  std::promise<c10::intrusive_ptr<c10d::Store>> promise;
  std::future<c10::intrusive_ptr<c10d::Store>> store = promise.get_future();
  std::thread([promise = std::move(promise), address, options]() mutable {
    try {
      promise.set_value(c10::make_intrusive<c10d::TCPStore>(std::move(address), options));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  require<CommError>(
      store.wait_until(deadline) == std::future_status::ready, "rank ", world.rank, " reached ", address,
      " port ", world.master_port, ", but no braid answered there within ", seconds_text(timeout),
      ": another program uses this port, or rank 0 is stopped; check MASTER_ADDR and MASTER_PORT");
  return store.get();
}

// One rank's description of itself. Compared field by field, so each field has a name for messages.
struct Record {
  std::string host, pid, world_size, run_id, version, fingerprint, nonce;
};

constexpr std::array kFields = {&Record::host,    &Record::pid,         &Record::world_size, &Record::run_id,
                                &Record::version, &Record::fingerprint, &Record::nonce};
constexpr char kSeparator = '\x1f';

std::string encode(const Record& record) {
  std::string text;
  for (const auto field : kFields) {
    require<InternalError>((record.*field).find(kSeparator) == std::string::npos,
                           "a rank's record contains a separator");
    text += record.*field + kSeparator;
  }
  return text;
}

Record decode(const std::string& text, int rank) {
  const std::vector<std::string> pieces = split(text, kSeparator);
  // Another braid version may write other fields; that is then the difference to report.
  require<CommError>(pieces.size() == kFields.size() + 1, "rank ", rank,
                     " runs a braid with another startup protocol: use the same version on all ranks");
  Record record;
  for (size_t i = 0; i < kFields.size(); ++i) record.*kFields[i] = pieces[i];
  return record;
}

Record own_record(const World& world, const Introduction& mine) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  std::random_device random;
  return {.host = host.data(),
          .pid = std::to_string(::getpid()),
          .world_size = std::to_string(world.world_size),
          .run_id = world.run_id,
          .version = mine.braid_version,
          .fingerprint = mine.config_fingerprint,
          .nonce = cat(random(), random())};
}

std::string record_key(int rank) { return cat("braid/rank/", rank); }
constexpr const char* kVerdictKey = "braid/verdict";
constexpr const char* kReadKey = "braid/verdict_read";

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t kMostNamed = 16;
  for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) text += cat(i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kMostNamed) text += cat(" and ", ranks.size() - kMostNamed, " more");
  return text;
}

// "braid version: rank 0 has 1, rank 2 has 2", or nothing if all agree.
std::string difference(const std::vector<Record>& records, const char* what, std::string Record::*field) {
  std::map<std::string, std::vector<int>> holders;
  for (size_t rank = 0; rank < records.size(); ++rank)
    holders[records[rank].*field].push_back(static_cast<int>(rank));
  if (holders.size() == 1) return "";
  std::string text = cat(what, ": ");
  bool first = true;
  for (const auto& [value, ranks] : holders) {
    text += cat(first ? "" : ", ", ranks_text(ranks), ranks.size() == 1 ? " has '" : " have '", value, "'");
    first = false;
  }
  return text;
}

struct Verdict {
  std::string text;  // empty if all ranks agree, else the message for all ranks
  int readers = 0;   // ranks present to read it
};

Verdict judge(c10d::Store& store, const World& world, milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  std::vector<int> missing;
  for (int rank = 0; rank < world.world_size; ++rank) {
    try {
      store.wait({record_key(rank)}, left_until(deadline));
    } catch (const std::exception&) {
      missing.push_back(rank);
    }
  }
  Verdict verdict = {.text = "", .readers = world.world_size - 1 - static_cast<int>(missing.size())};
  if (!missing.empty()) {
    verdict.text =
        cat(ranks_text(missing), " of ", world.world_size, " did not arrive within ", seconds_text(timeout),
            ": look for an error in their logs, and check how many ranks were started (", world.source, ")");
    return verdict;
  }
  try {
    std::vector<Record> records;
    for (int rank = 0; rank < world.world_size; ++rank) {
      records.push_back(decode(store.get_to_str(record_key(rank)), rank));
    }
    for (const auto& [what, field] :
         {std::pair{"world size", &Record::world_size}, std::pair{"run id", &Record::run_id},
          std::pair{"braid version", &Record::version}, std::pair{"configuration", &Record::fingerprint}}) {
      const std::string found = difference(records, what, field);
      if (!found.empty())
        verdict.text += cat(verdict.text.empty() ? "the ranks do not agree: " : "; ", found);
    }
  } catch (const CommError& error) {
    verdict.text = error.what();
  }
  return verdict;
}

// Rank 0's store must exist until the others have read the verdict; otherwise they would see a lost
// connection instead.
void await_readers(c10d::Store& store, int readers) {
  const Clock::time_point deadline = Clock::now() + milliseconds(5000);
  while (store.add(kReadKey, 0) < readers && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_store(const World& world, milliseconds timeout) {
  require<ConfigError>(timeout >= milliseconds(1), "the time limit for connecting must be at least 1 ms");
  if (world.world_size == 1) {
    if (world.master_listen_fd) const FileDescriptor unused(*world.master_listen_fd);
    return c10::make_intrusive<c10d::HashStore>();
  }
  if (world.rank == 0 && world.local_world_size < world.world_size) {
    const std::string address = resolve_host(world.master_addr).front();
    require<ConfigError>(
        !is_loopback(address), "MASTER_ADDR=", world.master_addr, " is ", address,
        " here, which other nodes cannot reach: use an address of this machine in the shared network");
  }
  const BrokenPipeGuard guard;  // inherited by the store's threads
  try {
    if (world.store_is_hosted) {
      // That store also contains the launcher's own keys and those of earlier attempts at this run.
      return c10::make_intrusive<c10d::PrefixStore>(cat("braid/", world.attempt), join_store(world, timeout));
    }
    return world.rank == 0 ? host_store(world, timeout) : join_store(world, timeout);
  } catch (const c10::Error& error) {
    throw CommError(cat("rank ", world.rank, " could not open the store at ", world.master_addr, " port ",
                        world.master_port, ": ", short_reason(error)));
  }
}

void handshake(c10d::Store& store, const World& world, const Introduction& mine, milliseconds timeout) {
  const std::string own = encode(own_record(world, mine));
  try {
    const std::string taken = store.compareSet(record_key(world.rank), "", own);
    if (taken != own) {
      const Record other = decode(taken, world.rank);
      throw CommError(
          cat("rank ", world.rank, " is taken by process ", other.pid, " on ", other.host,
              ": two processes were started with the same rank, or an earlier run still uses port ",
              world.master_port));
    }
    // A rank beyond rank 0's world size is not part of the verdict, so the consent includes the size.
    const std::string consent = cat("ok ", world.world_size);
    std::string verdict;
    if (world.rank == 0) {
      const Verdict judged = judge(store, world, timeout);
      verdict = judged.text.empty() ? consent : judged.text;
      store.set(kVerdictKey, verdict);
      if (verdict != consent) await_readers(store, judged.readers);
    } else {
      // Rank 0 may have started later than this rank and then use its full time limit.
      store.wait({kVerdictKey}, timeout + milliseconds(10'000));
      verdict = store.get_to_str(kVerdictKey);
      store.add(kReadKey, 1);
    }
    require<CommError>(!verdict.starts_with("ok ") || verdict == consent, "rank ", world.rank,
                       " was started with a world size of ", world.world_size, ", but rank 0 with ",
                       verdict.substr(std::min<size_t>(3, verdict.size())));
    require<CommError>(verdict == consent, "rank ", world.rank, ": ", verdict);
  } catch (const c10::Error& error) {
    throw CommError(cat("rank ", world.rank, " lost rank 0 at ", world.master_addr, " port ",
                        world.master_port, " while the ranks were gathering: ", short_reason(error),
                        "; see rank 0's log"));
  }
}

}  // namespace braid::comm
