#include "braid/train/faults_test_support.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <optional>
#include <regex>
#include <thread>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/comm/address.h"
#include "braid/comm/store.h"
#include "braid/train/emulate.h"

namespace braid::train {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kShort(3'000);  // the timeout where it is what ends the ranks
constexpr milliseconds kLong(60'000);  // the timeout where something else must
constexpr milliseconds kMargin(20'000);
constexpr int kWakeUp = SIGUSR1;
constexpr size_t kCasesAtATime = 12;

milliseconds timeout_of(const FaultCase& c) { return c.fault == Fault::kKill ? kLong : kShort; }

// All others must have ended so long after the start, and a victim that lives on so long after them.
milliseconds patience_of(const FaultCase& c) {
  return c.fault == Fault::kKill ? kMargin : timeout_of(c) + kMargin;
}

schedule::Schedule lowered(const FaultCase& c) {
  return schedule::lower(c.compute, {.receives = c.receives});
}

const std::vector<schedule::Action>& list_of(const schedule::Schedule& schedule, int32_t rank) {
  return schedule.ranks[static_cast<size_t>(rank)];
}

// Where in the victim's list its fault is.
size_t position_of(const FaultCase& c) {
  const schedule::Schedule schedule = lowered(c);
  std::vector<size_t> positions;
  for (size_t i = 0; i < list_of(schedule, c.victim).size(); ++i) {
    if (list_of(schedule, c.victim)[i].op == c.op) positions.push_back(i);
  }
  require<InternalError>(!positions.empty(), "rank ", c.victim, " has no ", to_string(c.op));
  return positions[c.midway ? positions.size() / 2 : 0];
}

sigset_t wake_up_alone() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, kWakeUp);
  return set;
}

void suffer(Fault fault) {
  switch (fault) {
    case Fault::kKill:
      ::raise(SIGKILL);
      break;
    case Fault::kStop:
      ::raise(SIGSTOP);
      break;
    case Fault::kSleep: {
      const sigset_t set = wake_up_alone();
      int signal = 0;
      ::sigwait(&set, &signal);
      break;
    }
  }
}

// Counts the actions of its rank, and on the victim brings the fault about.
class FaultObserver final : public pipeline::Observer {
 public:
  FaultObserver(const FaultCase& c, int32_t rank) : case_(c) {
    if (rank == c.victim) position_ = position_of(c);
  }

  void before(const schedule::Action& /*action*/) override {
    if (done_ == position_) suffer(case_.fault);
  }

  void after(const schedule::Action& /*action*/, const pipeline::ActionTimes& /*times*/) override {
    ++done_;
    // The observer is not called for what ends the step, NORM first.
    if (done_ == position_ && case_.op == schedule::Op::kNorm) suffer(case_.fault);
  }

  size_t done() const { return done_; }

 private:
  const FaultCase& case_;
  std::optional<size_t> position_;
  size_t done_ = 0;
};

// What a rank has to say at its end.
struct Report {
  size_t actions_done = 0;
  std::string error;  // empty if there was no CommError
};

Report run_rank(const FaultCase& c, const comm::World& world) {
  const sigset_t set = wake_up_alone();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // for sigwait; before there are threads that could take it
  at::set_num_threads(1);
  FaultObserver observer(c, world.rank);
  Report report;
  try {
    const auto store = comm::connect_store(world, kLong);
    comm::handshake(*store, world, {}, kLong);  // so that no rank begins to wait for one that is yet to start
    const schedule::Seconds brief(0.001);
    const EmulationOptions options = {
        .steps = 1, .receives = c.receives, .message_numel = c.message_numel, .timeout = timeout_of(c)};
    emulate({{.compute = c.compute,
              .durations = {.stages = {{.forward = brief, .backward_input = brief, .backward_weight = brief}},
                            .communication = {}}}},
            options, world, store, "", &observer);
  } catch (const CommError& error) {
    report.error = error.what();
  }
  report.actions_done = observer.done();
  return report;
}

// One case under way. Its ranks are forked off the test program, not started anew: loading the library would
// take most of the time. They end by _exit, so nothing of the test program runs twice.
class RunningCase {
 public:
  explicit RunningCase(const FaultCase& c)
      : case_(c),
        ranks_(static_cast<size_t>(c.compute.shape.ranks)),
        deadline_(Clock::now() + patience_of(c)) {
    comm::FileDescriptor listener = comm::listen_on("127.0.0.1", 0);
    const int port = comm::bound_port(listener.get());
    for (int32_t rank = 0; rank < c.compute.shape.ranks; ++rank) start(rank, port, listener);
  }
  RunningCase(const RunningCase&) = delete;
  RunningCase& operator=(const RunningCase&) = delete;
  ~RunningCase() {
    for (const Process& process : ranks_) {
      if (process.ended) continue;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
  }

  // Whether all ranks have ended, or used up everyone's patience.
  bool is_over() {
    for (Process& process : ranks_) look_at(process);
    const bool others_ended = std::ranges::all_of(
        ranks_, [&](const Process& process) { return process.ended || &process == &victim(); });
    if (others_ended && !victim_is_last_) {
      victim_is_last_ = true;
      deadline_ = Clock::now() + patience_of(case_);
      if (!victim().ended) ::kill(victim().pid, case_.fault == Fault::kStop ? SIGCONT : kWakeUp);
    }
    return (others_ended && victim().ended) || Clock::now() > deadline_;
  }

  void expect_good_end() const {
    SCOPED_TRACE(testing::PrintToString(case_));
    EXPECT_EQ(victim().stopped, case_.fault == Fault::kStop);
    for (int32_t rank = 0; rank < case_.compute.shape.ranks; ++rank) {
      SCOPED_TRACE(testing::Message() << "rank " << rank);
      const Process& process = ranks_[static_cast<size_t>(rank)];
      if (!process.ended) {
        ADD_FAILURE() << "it hangs";
      } else if (rank == case_.victim && case_.fault == Fault::kKill) {
        EXPECT_TRUE(WIFSIGNALED(process.status) && WTERMSIG(process.status) == SIGKILL) << process.status;
      } else {
        EXPECT_TRUE(WIFEXITED(process.status) && WEXITSTATUS(process.status) == 0) << process.status;
        expect_good_report(rank);
      }
    }
  }

 private:
  struct Process {
    pid_t pid = 0;
    int status = 0;
    bool stopped = false;  // at any time
    bool ended = false;
  };

  const Process& victim() const { return ranks_[static_cast<size_t>(case_.victim)]; }

  std::filesystem::path report_path(int32_t rank) const { return scratch_.path() / cat("rank", rank); }

  void start(int32_t rank, int port, comm::FileDescriptor& listener) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) be_rank(rank, port, listener);
      ::_exit(1);
    }
    ASSERT_GT(pid, 0) << "fork failed";
    ranks_[static_cast<size_t>(rank)].pid = pid;
  }

  [[noreturn]] void be_rank(int32_t rank, int port, comm::FileDescriptor& listener) const {
    comm::World world = {.rank = rank,
                         .world_size = case_.compute.shape.ranks,
                         .local_rank = rank,
                         .local_world_size = case_.compute.shape.ranks,
                         .master_port = port,
                         .source = "a test"};
    const int listening = listener.release();
    if (rank == 0) {
      world.master_listen_fd = listening;
    } else {
      ::close(listening);  // the store must end with rank 0
    }
    try {
      const Report report = run_rank(case_, world);
      std::ofstream(report_path(rank)) << report.actions_done << " " << report.error;
      ::_exit(0);
    } catch (const std::exception& error) {
      std::ofstream(report_path(rank)) << "0 " << error.what();
      ::_exit(2);
    }
  }

  static void look_at(Process& process) {
    int status = 0;
    if (process.ended || ::waitpid(process.pid, &status, WNOHANG | WUNTRACED) != process.pid) return;
    if (WIFSTOPPED(status)) {
      process.stopped = true;
    } else {
      process.status = status;
      process.ended = true;
    }
  }

  void expect_good_report(int32_t rank) const {
    Report report;
    std::ifstream file(report_path(rank));
    file >> report.actions_done >> std::ws;
    std::getline(file, report.error);
    const schedule::Schedule schedule = lowered(case_);
    SCOPED_TRACE(testing::Message() << "after " << report.actions_done << " actions: " << report.error);
    if (list_of(schedule, rank)[report.actions_done].op ==
        schedule::Op::kNorm) {  // only the step's end is left
      EXPECT_TRUE(report.error.starts_with(cat("rank ", rank, " (pp ", rank, "): barrier over ranks 0, ")));
    } else {
      expect_names_what_it_waited_for(schedule, rank, report.error);
    }
  }

  void expect_names_what_it_waited_for(const schedule::Schedule& schedule, int32_t rank,
                                       const std::string& error) const {
    static const std::regex form(
        R"(rank (\d+) \(pp \d+\) waited [0-9.]+ s for (\w+) (from|to) rank (\d+) \(pp \d+\): (.*))");
    std::smatch match;
    ASSERT_TRUE(std::regex_match(error, match, form));
    EXPECT_EQ(std::stoi(match[1]), rank);
    const int32_t peer = std::stoi(match[4]);
    const auto message = schedule::message_of(schedule, rank, schedule::parse_action(match[2].str()));
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(peer, match[3] == "from" ? message->from.rank : message->to.rank);
    if (rank == case_.victim) return;
    EXPECT_EQ(peer, rank < case_.victim ? rank + 1 : rank - 1) << "not on the side of the victim";
    const bool says_timeout = match[5].str().starts_with("no answer within the timeout");
    EXPECT_TRUE(says_timeout || match[5].str().find("ended or gave up") != std::string::npos);
    EXPECT_FALSE(case_.fault == Fault::kKill && says_timeout);
    EXPECT_FALSE(case_.fault != Fault::kKill && peer == case_.victim && !says_timeout);
  }

  const FaultCase case_;
  const ScratchDirectory scratch_;
  std::vector<Process> ranks_;
  Clock::time_point deadline_;
  bool victim_is_last_ = false;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const FaultCase& c) {
  const char* const what = c.fault == Fault::kKill   ? "is killed"
                           : c.fault == Fault::kStop ? "is stopped"
                                                     : "falls asleep";
  return out << c.compute.name << ": rank " << c.victim << " " << what << " at "
             << (c.midway ? "the middle " : "the first ") << to_string(c.op) << ", messages of "
             << c.message_numel << (c.receives == schedule::ReceivePosting::kEarly ? ", early receives" : "");
}

std::vector<int32_t> ranks_with(const schedule::Schedule& compute, schedule::Op op) {
  const schedule::Schedule schedule = schedule::lower(compute, {});
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const auto has_op = [&](const schedule::Action& action) { return action.op == op; };
    if (std::ranges::any_of(list_of(schedule, rank), has_op)) ranks.push_back(rank);
  }
  return ranks;
}

void expect_all_end(const std::vector<FaultCase>& cases) {
  std::list<RunningCase> running;
  size_t started = 0;
  while (started < cases.size() || !running.empty()) {
    while (started < cases.size() && running.size() < kCasesAtATime) running.emplace_back(cases[started++]);
    for (auto one = running.begin(); one != running.end();) {
      const bool is_over = one->is_over();
      if (is_over) one->expect_good_end();
      one = is_over ? running.erase(one) : std::next(one);
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

}  // namespace braid::train
