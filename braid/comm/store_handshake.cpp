// The handshake: are all ranks present, each once, and do they agree?
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/agreement.h"
#include "braid/comm/error_text.h"
#include "braid/comm/store.h"
#include "braid/comm/store_events.h"

namespace braid::comm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// After a fault, other ranks still get this long to arrive, so that one message names all that differ.
constexpr milliseconds kFaultGrace(1000);
// Rank 0's store stays this long for others to read the verdict.
constexpr milliseconds kReadingTime(5000);
// How long a rank that cannot run looks for the others.
constexpr milliseconds kTellingTime(5000);
// Rank 0 may have started later than this rank and then uses its full time limit.
constexpr milliseconds kVerdictSlack(10'000);

std::string seconds_text(milliseconds time) {
  return cat(to_text(static_cast<double>(time.count()) / 1000.0), " s");
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

std::string host_name() {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

RankRecord own_record(const World& world, const Introduction& mine) {
  std::random_device random;
  return {.host = host_name(),
          .pid = std::to_string(::getpid()),
          .world_size = std::to_string(world.world_size),
          .run_id = world.run_id,
          .nonce = cat(random(), random()),
          .introduction = mine};
}

std::string record_key(int rank) { return cat("braid/rank/", rank); }
std::string read_key(int rank) { return cat("braid/verdict_read/", rank); }
constexpr const char* kVerdictKey = "braid/verdict";

// What two processes with the same rank are told, and all others with them.
std::string taken_twice(const World& world, const RankRecord& first) {
  return cat("rank ", world.rank, " is taken by process ", first.pid, " on ", first.host, ", and process ",
             ::getpid(), " on ", host_name(), " was started as rank ", world.rank,
             " too: were two nodes started with the same --node_rank, or does an earlier run still use port ",
             world.master_port, "?");
}

// Who has arrived within the time limit, and the faults that were posted meanwhile.
struct Gathering {
  std::set<int> present;
  std::vector<std::string> faults;
};

Gathering gather(c10d::Store& store, const World& world, milliseconds timeout) {
  Clock::time_point deadline = Clock::now() + timeout;
  Gathering gathering;
  const auto found = [&](std::string fault) {
    gathering.faults.push_back(std::move(fault));
    deadline = std::min(deadline, Clock::now() + kFaultGrace);
  };
  int expected = world.world_size;
  for (int64_t number = 1; expected > 0; ++number) {
    const std::optional<Event> event = wait_for_event(store, number, left_until(deadline));
    if (!event) break;
    if (const auto* fault = std::get_if<Fault>(&*event)) {
      found(fault->text);
      continue;
    }
    const int rank = std::get<Arrival>(*event).rank;
    if (gathering.present.insert(rank).second && rank < world.world_size) --expected;
    // All that a rank shares with rank 0 can be compared now; there may never be more ranks.
    const bool equal = agree(decode(store.get_to_str(record_key(rank)), rank),
                             decode(store.get_to_str(record_key(world.rank)), world.rank));
    if (!equal) deadline = std::min(deadline, Clock::now() + kFaultGrace);
  }
  return gathering;
}

struct Verdict {
  std::string text;         // empty if all ranks agree, else the message for all ranks
  std::set<int> readers{};  // ranks present to read it
};

std::string differences(c10d::Store& store, const std::set<int>& ranks) {
  std::map<int, RankRecord> records;
  for (const int rank : ranks) records[rank] = decode(store.get_to_str(record_key(rank)), rank);
  return differences(records);
}

Verdict judge(c10d::Store& store, const World& world, milliseconds timeout) {
  Verdict verdict;
  try {
    Gathering gathering = gather(store, world, timeout);
    verdict.readers = gathering.present;
    std::vector<std::string> texts = std::move(gathering.faults);
    if (std::string found = differences(store, gathering.present); !found.empty()) texts.push_back(found);
    std::vector<int> missing;
    for (int rank = 0; rank < world.world_size; ++rank) {
      if (!gathering.present.contains(rank)) missing.push_back(rank);
    }
    if (texts.empty() && !missing.empty()) {
      texts.push_back(cat(
          ranks_text(missing), " of ", world.world_size, " did not arrive within ", seconds_text(timeout),
          ": look for an error in their logs, and check how many ranks were started (", world.source, ")"));
      if (store.check({kRejectedKey}))
        texts.back() +=
            cat("; connections without the run's secret came from ", store.get_to_str(kRejectedKey));
    }
    for (const std::string& text : texts) verdict.text += cat(verdict.text.empty() ? "" : "; ", text);
  } catch (const CommError& error) {
    verdict.text = error.what();
  }
  return verdict;
}

// Rank 0's store must exist until the others have read the verdict; otherwise they would see a lost
// connection instead.
void await_readers(c10d::Store& store, const World& world, const std::set<int>& readers) {
  std::vector<std::string> keys;
  for (const int rank : readers) {
    if (rank != world.rank) keys.push_back(read_key(rank));
  }
  try {
    if (!keys.empty()) store.wait(keys, kReadingTime);
  } catch (const std::exception&) {
    // A reader has ended by itself.
  }
}

}  // namespace

void tell_of_failure(const World& world, const std::string& reason, const StoreOptions& options) {
  if (world.local_world_size == world.world_size) return;
  try {
    const c10::intrusive_ptr<c10d::Store> store = connect_store(world, kTellingTime, options);
    post_fault(*store, cat("rank ", world.rank, " on ", host_name(), " cannot run: ", reason));
    // Rank 0 gives the verdict, and its store must live until the others have read it.
    if (world.rank == 0) handshake(*store, world, {.braid_version = options.braid_version}, kTellingTime);
  } catch (const std::exception&) {
    // They are not there, or have heard it: the reason is told by this rank itself in any case.
  }
}

void report_second_rank_zero(c10d::Store& store, const World& world) {
  const std::string text = taken_twice(world, decode(store.get_to_str(record_key(world.rank)), world.rank));
  post_fault(store, text);
  throw CommError(text);
}

void handshake(c10d::Store& store, const World& world, const Introduction& mine, milliseconds timeout) {
  const std::string own = encode(own_record(world, mine));
  try {
    const std::string taken = store.compareSet(record_key(world.rank), "", own);
    if (taken != own) {
      const std::string text = taken_twice(world, decode(taken, world.rank));
      post_fault(store, text);
      throw CommError(text);
    }
    post_arrival(store, world.rank);
    // A rank beyond rank 0's world size is not part of the verdict, so the consent includes the size.
    const std::string consent = cat("ok ", world.world_size);
    std::string verdict;
    if (world.rank == 0) {
      const Verdict judged = judge(store, world, timeout);
      verdict = judged.text.empty() ? consent : judged.text;
      store.set(kVerdictKey, verdict);
      if (verdict != consent) await_readers(store, world, judged.readers);
    } else {
      store.wait({kVerdictKey}, timeout + kVerdictSlack);
      verdict = store.get_to_str(kVerdictKey);
      store.set(read_key(world.rank), "read");
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
