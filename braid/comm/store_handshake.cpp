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
// Rank 0 may have started later than this rank and then uses its full time limit.
constexpr milliseconds kVerdictSlack(10'000);

std::string seconds_text(milliseconds time) {
  return cat(to_text(static_cast<double>(time.count()) / 1000.0), " s");
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

// One rank's description of itself. Compared field by field, so each field has a name for messages.
struct Record {
  std::string host, pid, world_size, run_id, version, fingerprint, nonce;
};

constexpr std::array kFields = {&Record::host,    &Record::pid,         &Record::world_size, &Record::run_id,
                                &Record::version, &Record::fingerprint, &Record::nonce};
// What ranks must agree on, as messages call it.
constexpr std::array kCompared = {
    std::pair{"world size", &Record::world_size}, std::pair{"run id", &Record::run_id},
    std::pair{"braid version", &Record::version}, std::pair{"configuration", &Record::fingerprint}};
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
std::string read_key(int rank) { return cat("braid/verdict_read/", rank); }
constexpr const char* kVerdictKey = "braid/verdict";

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t kMostNamed = 16;
  for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) text += cat(i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kMostNamed) text += cat(" and ", ranks.size() - kMostNamed, " more");
  return text;
}

// Of several texts, what each has that not all have: of two configurations, the lines that differ.
std::map<std::string, std::string> distinguishing_lines(
    const std::map<std::string, std::vector<int>>& holders) {
  std::map<std::string, size_t> texts_with;  // by line
  const auto lines_of = [](const std::string& text) {
    const std::vector<std::string> lines = split(text, '\n');
    return std::set<std::string>(lines.begin(), lines.end());
  };
  for (const auto& [text, ranks] : holders) {
    for (const std::string& line : lines_of(text)) ++texts_with[line];
  }
  std::map<std::string, std::string> result;
  for (const auto& [text, ranks] : holders) {
    std::string own;
    for (const std::string& line : lines_of(text)) {
      if (texts_with[line] < holders.size()) own += cat(own.empty() ? "" : ", ", trim(line));
    }
    constexpr size_t kMostCharacters = 400;
    result[text] = own.size() <= kMostCharacters ? own : cat(own.substr(0, kMostCharacters), " ...");
  }
  return result;
}

// "braid version: rank 0 has 1, rank 2 has 2", or nothing if all agree.
std::string difference(const std::map<int, Record>& records, const char* what, std::string Record::*field) {
  std::map<std::string, std::vector<int>> holders;
  for (const auto& [rank, record] : records) holders[record.*field].push_back(rank);
  if (holders.size() <= 1) return "";
  std::map<std::string, std::string> shown = distinguishing_lines(holders);
  std::string text = cat(what, ": ");
  bool first = true;
  for (const auto& [value, ranks] : holders) {
    text += cat(first ? "" : ", ", ranks_text(ranks), ranks.size() == 1 ? " has '" : " have '", shown[value],
                "'");
    first = false;
  }
  return text;
}

// What two processes with the same rank are told, and all others with them.
std::string taken_twice(const World& world, const Record& first) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return cat("rank ", world.rank, " is taken by process ", first.pid, " on ", first.host, ", and process ",
             ::getpid(), " on ", host.data(), " was started as rank ", world.rank,
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
    const Record other = decode(store.get_to_str(record_key(rank)), rank);
    const Record own = decode(store.get_to_str(record_key(world.rank)), world.rank);
    const bool equal = std::all_of(kCompared.begin(), kCompared.end(), [&](const auto& field) {
      return other.*field.second == own.*field.second;
    });
    if (!equal) deadline = std::min(deadline, Clock::now() + kFaultGrace);
  }
  return gathering;
}

struct Verdict {
  std::string text;         // empty if all ranks agree, else the message for all ranks
  std::set<int> readers{};  // ranks present to read it
};

std::string differences(c10d::Store& store, const std::set<int>& ranks) {
  std::map<int, Record> records;
  for (const int rank : ranks) records[rank] = decode(store.get_to_str(record_key(rank)), rank);
  std::string text;
  for (const auto& [what, field] : kCompared) {
    const std::string found = difference(records, what, field);
    if (!found.empty()) text += cat(text.empty() ? "the ranks do not agree: " : "; ", found);
  }
  return text;
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
