#include "braid/launch/launch.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/text.h"
#include "braid/launch/log_text.h"
#include "braid/launch/process.h"
#include "braid/launch/rank_log.h"
#include "braid/launch/rendezvous.h"
#include "braid/launch/secret.h"
#include "braid/launch/signal_queue.h"

namespace braid::launch {
namespace {

using Clock = std::chrono::steady_clock;

// A SIGCHLD can be missed (if another thread takes it), so children are also polled at this interval.
constexpr std::chrono::milliseconds kLongestWait{500};
constexpr size_t kReadBytes = size_t{64} << 10;
// Far more than an ended rank can have left in its pipe; anything beyond comes from a stray descendant that
// still writes.
constexpr size_t kMostLeftBytes = size_t{1} << 20;

struct Rank {
  int64_t global_rank = 0;
  int64_t local_rank = 0;
  Process process;
  RankLog log;
  std::optional<Ending> ending;
};

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? cat("signal ", signal) : cat("SIG", name);
}

// Warnings ask for the end like the others, but the run's time is not up yet.
bool is_warning(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }

// Whether a rank ended because a signal asked it to, after it had done what there was to do.
bool is_stop(const Ending& ending) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    if (!ending.signal && ending.exit_code == kSignalExitCode + signal) return true;
  }
  return false;
}

std::string ending_text(const Ending& ending) {
  return ending.signal ? cat("signal ", signal_name(*ending.signal)) : cat("exit code ", ending.exit_code);
}

class Job {
 public:
  Job(const LaunchOptions& options, const LaunchContext& context) : options_(options), context_(context) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run();

 private:
  void start();
  void wait_for_events();
  void take_signals();
  void read_some(Rank& rank);
  void drain(Rank& rank);
  void reap_ended();
  void note_failure(size_t index);
  void note_stop(const Ending& ending);
  void act_on_deadlines();
  void terminate();
  void send(int signal);
  bool was_asked(const Ending& ending) const;
  void report_failure(const Rank& rank);
  void report_end();

  int64_t alive() const;
  void say(const std::string& text) { context_.message(cat("braid launch: ", text, "\n")); }
  void note_log_error(const Rank& rank, const std::optional<std::string>& reason);

  const LaunchOptions& options_;
  const LaunchContext& context_;
  SignalQueue signals_;
  std::vector<Rank> ranks_;
  ShownText shown_;  // of local rank 0
  Clock::time_point started_ = Clock::now();

  std::optional<size_t> culprit_;    // index of the rank whose failure ended the run
  std::optional<int> stopped_code_;  // of the first rank that ended because it was asked to
  std::optional<int> warning_;
  std::optional<int> stop_signal_;  // the first that is not a warning
  std::optional<Clock::time_point> terminate_at_;
  std::optional<Clock::time_point> kill_at_;
  bool terminated_ = false;  // a signal that ends them was sent to all
  bool lost_log_ = false;
  int64_t killed_ = 0;  // ranks still running when SIGKILL was sent
};

Job::~Job() {
  // A rank is still running here only after an exception.
  send(SIGKILL);
  for (Rank& rank : ranks_) {
    while (!rank.ending) {
      rank.ending = reap(rank.process.pid);
      if (!rank.ending) ::poll(nullptr, 0, 1);
    }
  }
}

int Job::run() {
  start();
  while (alive() > 0) {
    wait_for_events();
    take_signals();
    reap_ended();
    act_on_deadlines();
  }
  // All ended before the wait for a culprit was over.
  if (culprit_ && !terminated_ && !was_asked(*ranks_[*culprit_].ending)) report_failure(ranks_[*culprit_]);
  report_end();
  if (culprit_) return ranks_[*culprit_].ending->exit_code;
  return stopped_code_.value_or(lost_log_ ? kOutputErrorExitCode : 0);
}

void Job::start() {
  const int64_t count = ranks_per_node(options_);
  std::vector<RankLog> logs(static_cast<size_t>(count));
  if (!options_.log_dir.empty()) {
    make_log_directory(options_.log_dir);
    for (int64_t i = 0; i < count; ++i) logs[static_cast<size_t>(i)] = RankLog(log_path(options_.log_dir, i));
  }
  // The launcher's copy of the listening socket closes when this function returns: once rank 0 is gone, no
  // rank can connect and wait.
  const Rendezvous rendezvous = open_rendezvous(options_);
  const std::string run_id = choose_run_id(context_.environment, options_);
  const std::string secret = choose_secret(context_.environment, options_);
  const int64_t threads = std::max<int64_t>(1, context_.cores / count);

  FileDescriptor terminal;  // a copy above 2, which rank 0 may ask for its width
  if (context_.terminal_fd) terminal = FileDescriptor(::fcntl(*context_.terminal_fd, F_DUPFD_CLOEXEC, 3));
  const bool is_own = is_own_program(options_);
  const std::string& program = is_own ? options_.command.front() : context_.program;
  const std::vector<std::string> arguments(options_.command.begin() + (is_own ? 1 : 0),
                                           options_.command.end());
  ranks_.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    RankSetting setting = {.local_rank = i,
                           .master_addr = rendezvous.master_addr,
                           .master_port = rendezvous.master_port,
                           .master_listen_fd = std::nullopt,
                           .run_id = run_id,
                           .secret = secret,
                           .omp_num_threads = threads,
                           .terminal_columns = std::nullopt,
                           .terminal_fd = std::nullopt};
    if (i == 0 && rendezvous.listener) setting.master_listen_fd = rendezvous.listener.get();
    if (i == 0) setting.terminal_columns = context_.terminal_columns;
    if (i == 0 && terminal) setting.terminal_fd = terminal.get();
    Process process = start_process({.program = program,
                                     .arguments = arguments,
                                     .environment = rank_environment(context_.environment, options_, setting),
                                     .inherited_fd = setting.master_listen_fd,
                                     .terminal_fd = setting.terminal_fd,
                                     .signal_mask = signals_.former_mask()});
    ranks_.push_back({global_rank(options_, i), i, std::move(process),
                      std::move(logs[static_cast<size_t>(i)]), std::nullopt});
  }

  const int64_t first = ranks_.front().global_rank;
  const auto given_threads = context_.environment.find("OMP_NUM_THREADS");
  say(cat(count == 1 ? cat("rank ", first) : cat("ranks ", first, " to ", first + count - 1), " of ",
          count * options_.nnodes, ", meeting at ", rendezvous.master_addr, ":", rendezvous.master_port,
          ", OMP_NUM_THREADS=",
          given_threads != context_.environment.end() ? cat(given_threads->second, " (as set)")
                                                      : cat(threads, " (", context_.cores, " cores)"),
          options_.log_dir.empty()
              ? ""
              : cat(", logs in ", log_path(options_.log_dir, 0), count == 1 ? "" : cat(" to .", count - 1))));
}

void Job::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
  std::vector<Rank*> readers;
  for (Rank& rank : ranks_) {
    if (!rank.process.output) continue;
    polled.push_back({rank.process.output.get(), POLLIN, 0});
    readers.push_back(&rank);
  }
  auto wait = kLongestWait;
  for (const auto& deadline : {terminate_at_, kill_at_}) {
    if (!deadline) continue;
    wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()));
  }
  const int timeout_ms = static_cast<int>(std::max<int64_t>(0, wait.count()));
  if (::poll(polled.data(), polled.size(), timeout_ms) <= 0) return;
  for (size_t i = 0; i < readers.size(); ++i) {
    if (polled[i + 1].revents != 0) read_some(*readers[i]);
  }
}

void Job::read_some(Rank& rank) {
  std::array<char, kReadBytes> buffer;
  const ssize_t count = ::read(rank.process.output.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    rank.process.output.close();
    return;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
  note_log_error(rank, rank.log.take(bytes));
  if (rank.local_rank == 0) context_.output(shown_.take(bytes));
}

void Job::drain(Rank& rank) {
  for (size_t left = 0; rank.process.output && left < kMostLeftBytes; left += kReadBytes) {
    pollfd polled = {rank.process.output.get(), POLLIN, 0};
    if (::poll(&polled, 1, 0) <= 0) break;
    read_some(rank);
  }
  rank.process.output.close();
  if (rank.local_rank == 0) context_.output(shown_.finish());
  note_log_error(rank, rank.log.finish());
}

void Job::note_log_error(const Rank& rank, const std::optional<std::string>& reason) {
  if (!reason) return;
  lost_log_ = true;
  say(cat("cannot write ", rank.log.path(), ": ", *reason, "; the output of rank ", rank.global_rank,
          " is no longer logged"));
}

void Job::take_signals() {
  while (const std::optional<int> signal = signals_.next()) {
    if (*signal == SIGCHLD) continue;
    const auto now = Clock::now();
    const std::string whom = alive() == 1 ? "the rank" : "all ranks";
    if (is_warning(*signal)) {
      if (warning_ || stop_signal_ || terminated_) continue;
      warning_ = *signal;
      say(cat(signal_name(*signal), ": asking ", whom, " to finish and end"));
      send(*signal);
      continue;
    }
    if (stop_signal_) {
      say(cat("second ", signal_name(*signal), ": killing the ranks"));
      kill_at_ = now;
      continue;
    }
    stop_signal_ = *signal;
    if (terminated_) continue;  // a failure is already ending the run
    say(cat(signal_name(*signal), ": asking ", whom,
            " to end (a second signal kills immediately; otherwise after ",
            context_.stop_grace.count() / 1000, " s)"));
    terminate_at_.reset();
    kill_at_ = now + context_.stop_grace;
    terminated_ = true;
    send(*signal);
  }
}

void Job::reap_ended() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.ending) continue;
    rank.ending = reap(rank.process.pid);
    if (!rank.ending) continue;
    drain(rank);
    if (is_stop(*rank.ending)) {
      note_stop(*rank.ending);
    } else if (rank.ending->exit_code != 0) {
      note_failure(i);
    }
  }
}

void Job::note_stop(const Ending& ending) {
  if (!stopped_code_) stopped_code_ = ending.exit_code;
  // The others have been asked too, or have heard of it. A program for which that is not so must not run on.
  if (!terminated_ && !terminate_at_) terminate_at_ = Clock::now() + context_.stop_grace;
}

bool Job::was_asked(const Ending& ending) const {
  return ending.signal && (ending.signal == warning_ || ending.signal == stop_signal_ ||
                           (terminated_ && (ending.signal == SIGTERM || ending.signal == SIGKILL)));
}

void Job::note_failure(size_t index) {
  const auto now = Clock::now();
  // The culprit may take a moment longer to end.
  const bool blames_another = ranks_[index].ending->exit_code == kPeerFailedExitCode;
  const bool replaces = culprit_ && !terminated_ && !blames_another &&
                        ranks_[*culprit_].ending->exit_code == kPeerFailedExitCode;
  if (!culprit_ || replaces) culprit_ = index;
  if (terminated_) {
    // A rank killed by the launcher's own signal is not a failure to explain.
    if (culprit_ == index && !was_asked(*ranks_[index].ending)) report_failure(ranks_[index]);
    // The others may be waiting for this one; none needs longer than after a failure.
    kill_at_ = std::min(kill_at_.value_or(now + context_.failure_grace), now + context_.failure_grace);
  } else {
    const auto when = blames_another ? now + context_.culprit_wait : now;
    terminate_at_ = std::min(terminate_at_.value_or(when), when);
  }
}

void Job::act_on_deadlines() {
  const auto now = Clock::now();
  if (terminate_at_ && *terminate_at_ <= now && alive() > 0) terminate();
  if (kill_at_ && *kill_at_ <= now) {
    kill_at_.reset();
    killed_ = alive();
    send(SIGKILL);
  }
}

void Job::terminate() {
  const bool is_explained = culprit_ && was_asked(*ranks_[*culprit_].ending);
  terminate_at_.reset();
  kill_at_ = Clock::now() + context_.failure_grace;
  terminated_ = true;
  send(SIGTERM);
  if (!culprit_) {
    say(cat(counted(alive(), "rank"), " did not end with the others when asked: ending"));
  } else if (!is_explained) {
    report_failure(ranks_[*culprit_]);
  }
}

void Job::send(int signal) {
  for (const Rank& rank : ranks_) {
    if (!rank.ending) ::kill(-rank.process.pid, signal);
  }
}

void Job::report_failure(const Rank& rank) {
  const auto& ending = *rank.ending;
  const std::chrono::duration<double> elapsed = Clock::now() - started_;
  const auto& lines = rank.log.last_lines();
  const bool shown = rank.local_rank == 0 && context_.terminal_columns;
  std::string text = cat("rank ", rank.global_rank, " (local ", rank.local_rank, ", pid ", rank.process.pid,
                         ") failed with ", ending_text(ending), " after ", fixed(elapsed.count(), 1), " s",
                         ending.signal == SIGKILL
                             ? " (killed from outside: the machine may have run out of memory, see dmesg)"
                             : "",
                         lines.empty() ? "; it printed nothing"
                         : shown       ? "; its output is above"
                                       : "; its last lines:");
  if (!shown) {
    for (const std::string& line : lines) text += "\n  | " + line;
  }
  say(text);
}

void Job::report_end() {
  const std::optional<int> signal = warning_ ? warning_ : stop_signal_;
  if (!signal && !culprit_ && !stopped_code_) return;
  std::string text = signal ? cat("stopped on ", signal_name(*signal)) : std::string("all ranks have ended");
  if (!culprit_) text += "; all ranks ended cleanly";
  if (signal && culprit_) {
    const Rank& rank = ranks_[*culprit_];
    text += cat("; rank ", rank.global_rank, " ended with ", ending_text(*rank.ending));
  }
  if (killed_ > 0)
    text += cat("; ", killed_, " of ", ranks_.size(), " did not end when asked and had to be killed");
  if (!options_.log_dir.empty()) text += cat("; logs are in ", options_.log_dir);
  say(text);
}

int64_t Job::alive() const {
  return std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.ending; });
}

}  // namespace

int run_launch(const LaunchOptions& options, const LaunchContext& context) {
  check(options);
  return Job(options, context).run();
}

}  // namespace braid::launch
