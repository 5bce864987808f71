// Real processes: each rank is /bin/sh with a short script.
#include "braid/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "braid/base/error.h"
#include "braid/base/failure.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"

namespace braid::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

// Generous for loaded machines: only what never happens fails.
constexpr seconds kPatience{60};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename Condition>
bool eventually(const Condition& condition) {
  const auto deadline = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// A zombie counts as gone: it waits only for its parent.
bool is_running(int64_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z' && stat[state + 2] != 'X';
}

class Launch : public testing::Test {
 protected:
  Launch() {
    context_.program = "/bin/sh";
    context_.environment = {{"PATH", "/usr/bin:/bin"}, {"DIR", dir_.string()}};
    context_.output = [this](std::string_view bytes) { output_ += bytes; };
    context_.message = [this](std::string_view text) { messages_ += text; };
    context_.cores = 8;
  }

  LaunchOptions options(int64_t ranks, const std::string& script) const {
    return {.nproc_per_node = ranks, .log_dir = (dir_ / "log").string(), .command = {"-c", script}};
  }
  int run(int64_t ranks, const std::string& script) { return run_launch(options(ranks, script), context_); }
  std::string log(int64_t rank) const { return read_file(dir_ / "log" / cat("workerlog.", rank)); }
  std::string file(const std::string& name) const { return read_file(dir_ / name); }

  // Runs the launcher in its own process, which the test can signal. Its messages go to the file `messages`.
  pid_t run_apart(int64_t ranks, const std::string& script) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_DFL);
    int code = 99;
    try {
      code = run(ranks, script);
      std::ofstream(dir_ / "messages") << messages_ << std::flush;
    } catch (const std::exception& error) {
      std::ofstream(dir_ / "messages") << error.what() << std::flush;
    }
    ::_exit(code);
  }

  // The pids that ranks have written as whole lines to files pid.<name>, once there are `count`.
  std::vector<int64_t> pids(size_t count) const {
    std::vector<int64_t> found;
    EXPECT_TRUE(eventually([&] {
      found.clear();
      for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
        const std::string text = read_file(entry.path());
        if (entry.path().filename().string().starts_with("pid.") && text.ends_with("\n")) {
          found.push_back(parse_int(trim(text)).value_or(0));
        }
      }
      return found.size() == count;
    }));
    return found;
  }

  static int wait_for(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  const ScratchDirectory scratch_;
  const std::filesystem::path& dir_ = scratch_.path();
  LaunchContext context_;
  std::string output_;
  std::string messages_;
};

TEST_F(Launch, RanksSeeTheirPlace) {
  EXPECT_EQ(
      run(2,
          "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR $OMP_NUM_THREADS; "
          "echo $BRAID_RUN_ID >$DIR/id.$RANK; echo $MASTER_PORT >$DIR/port.$RANK; echo pwned | cat; read x "
          "|| echo no input"),
      0);
  EXPECT_EQ(log(0), "0 0 2 2 0 127.0.0.1 4\npwned\nno input\n");
  EXPECT_EQ(log(1), "1 1 2 2 0 127.0.0.1 4\npwned\nno input\n");
  EXPECT_EQ(file("id.0").size(), 33u);
  EXPECT_EQ(file("id.0"), file("id.1"));
  EXPECT_GT(parse_int(trim(file("port.0"))).value_or(0), 0);
  EXPECT_EQ(file("port.0"), file("port.1"));
  EXPECT_THAT(messages_, HasSubstr("ranks 0 to 1 of 2, meeting at 127.0.0.1:"));
  EXPECT_THAT(messages_, HasSubstr("OMP_NUM_THREADS=4 (8 cores)"));
}

TEST_F(Launch, ACommandWithASlashIsAProgramOfTheUsersOwn) {
  context_.program = "/nonexistent/braid";
  const std::vector<std::string> command = {"/bin/sh", "-c", "echo own $RANK"};
  EXPECT_EQ(
      run_launch({.nproc_per_node = 2, .log_dir = (dir_ / "log").string(), .command = command}, context_), 0);
  EXPECT_EQ(log(1), "own 1\n");
  EXPECT_THROW(run_launch({.command = {"./absent"}}, context_), ConfigError);
}

TEST_F(Launch, SecondNodeNumbersItsRanksAndBindsNothing) {
  LaunchOptions second = options(2,
                                 "echo $RANK of $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT "
                                 "fd=$BRAID_MASTER_LISTEN_FD dev=$BRAID_LOCAL_DEVICE");
  second.nnodes = 2;
  second.node_rank = 1;
  second.master_addr = "host.invalid";
  second.gpus = "4,7";
  context_.environment["BRAID_RUN_SECRET"] = "0123456789abcdef";
  EXPECT_EQ(run_launch(second, context_), 0);
  EXPECT_EQ(log(0), "2 of 4 host.invalid:29500 fd= dev=4\n");
  EXPECT_EQ(log(1), "3 of 4 host.invalid:29500 fd= dev=7\n");
}

TEST_F(Launch, RanksGetTheSecretAndNobodyElseSeesIt) {
  const std::string secret = "0123456789abcdef0123";
  LaunchOptions given = options(
      2, "echo ${#BRAID_RUN_SECRET}; tr '\\0' ' ' </proc/$$/cmdline; tr '\\0' ' ' </proc/$PPID/cmdline");
  context_.environment["BRAID_RUN_SECRET"] = secret;
  EXPECT_EQ(run_launch(given, context_), 0);
  for (const std::string& seen : {output_, messages_, log(0), log(1)})
    EXPECT_THAT(seen, Not(HasSubstr(secret)));
  EXPECT_THAT(log(1), HasSubstr("20\n"));
  context_.environment.erase("BRAID_RUN_SECRET");
  EXPECT_EQ(run_launch(given, context_), 0);
  EXPECT_THAT(log(1), HasSubstr("64\n")) << "one node makes its own";
}

TEST_F(Launch, RankZeroIsShownRawAndLoggedPlain) {
  context_.terminal_columns = 90;
  EXPECT_EQ(run(2, "printf 'bar %s %s\\rdone\\n' \"$BRAID_PROGRESS\" \"$COLUMNS\"; echo problem >&2"), 0);
  EXPECT_EQ(output_, "bar 1 90\rdone\nproblem\n");
  EXPECT_EQ(log(0), "done\nproblem\n");
  EXPECT_EQ(log(1), "done\nproblem\n");
}

TEST_F(Launch, LogsAreMadeAndAppendedTo) {
  LaunchOptions deep = options(1, "echo once");
  deep.log_dir = (dir_ / "a" / "b").string();
  EXPECT_EQ(run_launch(deep, context_), 0);
  EXPECT_EQ(run_launch(deep, context_), 0);
  EXPECT_EQ(file("a/b/workerlog.0"), "once\nonce\n");
}

TEST_F(Launch, WithoutLogsTheLastLinesAreStillShown) {
  LaunchOptions bare =
      options(2, "[ $RANK = 1 ] || exec sleep 1000; for i in $(seq 100); do echo line $i; done; exit 4");
  bare.log_dir.clear();
  EXPECT_EQ(run_launch(bare, context_), 4);
  EXPECT_THAT(messages_, HasSubstr("\n  | line 81\n"));
  EXPECT_THAT(messages_, HasSubstr("\n  | line 100\n"));
  EXPECT_THAT(messages_, Not(HasSubstr("line 80\n")));
}

TEST_F(Launch, AFailingRankEndsTheOthersWithinFiveSeconds) {
  // Rank 0 ignores SIGTERM; rank 2 has a child that does so as well.
  const auto begin = Clock::now();
  EXPECT_EQ(
      run(4,
          "case $RANK in 0) trap '' TERM; echo $$ >$DIR/pid.0;; "
          "2) trap '' TERM; sleep 1000 & echo $! >$DIR/pid.child; echo $$ >$DIR/pid.2;; "
          "1) while [ ! -s $DIR/pid.0 ] || [ ! -s $DIR/pid.2 ]; do sleep 0.02; done; echo bad loss; exit 3;; "
          "3) exit 0;; esac; while :; do sleep 0.1; done"),
      3);
  EXPECT_LT(Clock::now() - begin, seconds(5) + milliseconds(500));  // and the ranks' start
  EXPECT_THAT(messages_, HasSubstr("rank 1 (local 1, pid "));
  EXPECT_THAT(messages_, HasSubstr("failed with exit code 3"));
  EXPECT_THAT(messages_, HasSubstr("its last lines:\n  | bad loss\n"));
  EXPECT_THAT(messages_, HasSubstr("2 of 4 did not end when asked and had to be killed"));
  for (const int64_t pid : pids(3)) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
}

TEST_F(Launch, ASignalThatKillsARankIsNamed) {
  EXPECT_EQ(run(2, "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 1000"), 128 + SIGSEGV);
  EXPECT_THAT(messages_, HasSubstr("failed with signal SIGSEGV"));
  EXPECT_EQ(run(2, "[ $RANK = 0 ] && kill -KILL $$; exec sleep 1000"), 128 + SIGKILL);
  EXPECT_THAT(messages_, HasSubstr("out of memory"));
}

TEST_F(Launch, TheCulpritIsNamedNotTheRankThatLostIt) {
  context_.culprit_wait = kPatience;
  EXPECT_EQ(run(3,
                "case $RANK in 0) touch $DIR/lost; exit 76;; "
                "1) while [ ! -e $DIR/lost ]; do sleep 0.02; done; exit 5;; esac; exec sleep 1000"),
            5);
  EXPECT_THAT(messages_, HasSubstr("rank 1 (local 1"));
  context_.culprit_wait = milliseconds(1);
  EXPECT_EQ(run(2, "[ $RANK = 0 ] && exit 76; exec sleep 1000"), 76);
}

TEST_F(Launch, ARankThatEndsEarlyWithZeroDisturbsNobody) {
  EXPECT_EQ(
      run(2,
          "[ $RANK = 0 ] && { touch $DIR/gone; exit 0; }; while [ ! -e $DIR/gone ]; do sleep 0.02; done; "
          "sleep 0.3; echo finished"),
      0);
  EXPECT_EQ(log(1), "finished\n");
}

TEST_F(Launch, OutputOfManyRanksIsCompleteAndInOrder) {
  EXPECT_EQ(
      run(16,
          "i=0; while [ $i -lt 40 ]; do seq $((i * 500)) $((i * 500 + 499)); i=$((i + 1)); done; printf end"),
      0);
  std::string expected;
  for (int i = 0; i < 20000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(output_, expected + "end");
  for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(log(rank), expected + "end\n") << rank;
}

TEST_F(Launch, OnlyRankZeroInheritsTheListeningSocket) {
  LaunchOptions given =
      options(2,
              "for fd in 3 4 5 6 7 8 9; do [ ! -e /proc/$$/fd/$fd ] || [ $fd = \"$BRAID_MASTER_LISTEN_FD\" ] "
              "|| echo $fd open; done; "
              "readlink /proc/$$/fd/${BRAID_MASTER_LISTEN_FD:-none} | cut -d: -f1; touch $DIR/up.$RANK; "
              "[ $RANK = 1 ] || while [ ! -e $DIR/finish ]; do sleep 0.02; done");
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    context_.message = [this](std::string_view text) {
      std::ofstream(dir_ / "messages", std::ios::app) << text;
    };
    ::_exit(run_launch(given, context_));
  }
  EXPECT_TRUE(eventually(
      [&] { return std::filesystem::exists(dir_ / "up.0") && std::filesystem::exists(dir_ / "up.1"); }));
  EXPECT_TRUE(eventually([&] { return file("messages").find("127.0.0.1:") != std::string::npos; }));
  const std::string messages = file("messages");
  const size_t colon = messages.find("127.0.0.1:") + 10;
  const int64_t port = parse_int(messages.substr(colon, messages.find(',', colon) - colon)).value_or(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto connects = [&] {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = ::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(client);
    return connected;
  };
  EXPECT_TRUE(connects());
  // A second run cannot take the port meanwhile.
  LaunchOptions second = options(1, "exit 0");
  second.master_port = port;
  EXPECT_THROW(run_launch(second, context_), ConfigError);

  std::ofstream(dir_ / "finish") << "now";
  EXPECT_EQ(wait_for(launcher), 0);
  EXPECT_FALSE(connects());
  EXPECT_EQ(log(0), "socket\n");
  EXPECT_EQ(log(1), "");
}

TEST_F(Launch, KillingTheLauncherLeavesNoProcess) {
  const pid_t launcher =
      run_apart(4, "trap '' TERM INT HUP; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.1; done");
  const std::vector<int64_t> ranks = pids(4);
  for (const int64_t pid : ranks) EXPECT_TRUE(is_running(pid));
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(wait_for(launcher), 1000 + SIGKILL);
  for (const int64_t pid : ranks) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
}

TEST_F(Launch, SignalsArePassedOnAndTheRanksCodeIsTheLaunchers) {
  const std::vector<std::pair<int, std::string>> signals = {
      {SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
  for (const auto& [signal, name] : signals) {
    for (const int code : {0, 128 + signal}) {
      const pid_t launcher = run_apart(2, cat("trap 'echo saved >$DIR/saved.$RANK; exit ", code, "' ", name,
                                              "; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.05; done"));
      const std::vector<int64_t> ranks = pids(2);
      ::kill(launcher, signal);
      EXPECT_EQ(wait_for(launcher), code) << name;
      for (const int64_t pid : ranks) EXPECT_FALSE(is_running(pid));
      EXPECT_THAT(file("messages"), HasSubstr(cat("stopped on SIG", name, "; all ranks ended cleanly")));
      EXPECT_THAT(file("messages"), Not(HasSubstr("failed")));
      EXPECT_EQ(file("saved.0") + file("saved.1"), "saved\nsaved\n");
      for (const char* left : {"pid.0", "pid.1", "saved.0", "saved.1", "messages"}) {
        std::filesystem::remove(dir_ / left);
      }
    }
  }
}

// As Slurm signals them, which reaches every process, and not the launcher alone.
TEST_F(Launch, RanksThatWereAskedThemselvesAreNoFailure) {
  const pid_t launcher =
      run_apart(2, "trap 'sleep 0.2; exit 138' USR1; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.05; done");
  for (const int64_t pid : pids(2)) ::kill(static_cast<pid_t>(pid), SIGUSR1);
  EXPECT_EQ(wait_for(launcher), 138);
  EXPECT_THAT(file("messages"), HasSubstr("all ranks have ended; all ranks ended cleanly"));
  EXPECT_THAT(file("messages"), Not(HasSubstr("failed")));
}

TEST_F(Launch, ARankThatRunsOnAfterAnotherWasStoppedIsEnded) {
  context_.stop_grace = milliseconds(100);
  EXPECT_EQ(run(2, "if [ $RANK = 0 ]; then exit 143; fi; exec sleep 1000"), 128 + SIGTERM);
  EXPECT_THAT(messages_, HasSubstr("1 rank did not end with the others when asked"));
}

TEST_F(Launch, AWarningIsNotTheFirstOfTwoSignals) {
  const pid_t launcher = run_apart(1,
                                   "trap 'echo >$DIR/warned' USR1; trap 'exit 5' TERM; echo $$ "
                                   ">$DIR/pid.$RANK; while :; do sleep 0.05; done");
  pids(1);
  for (int i = 0; i < 2; ++i) ::kill(launcher, SIGUSR1);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / "warned"); }));
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(wait_for(launcher), 5) << "asked to end, not killed";
  EXPECT_THAT(file("messages"), HasSubstr("SIGUSR1: asking the rank to finish and end"));
}

TEST_F(Launch, AStoppedRunWithoutHandlersEndsAsItsRanksDo) {
  for (const int signal : {SIGINT, SIGUSR1}) {
    const pid_t launcher = run_apart(2, "echo $$ >$DIR/pid.$RANK; exec sleep 1000");
    pids(2);
    ::kill(launcher, signal);
    EXPECT_EQ(wait_for(launcher), 128 + signal);
    EXPECT_THAT(file("messages"), HasSubstr(cat("stopped on SIG", ::sigabbrev_np(signal), "; rank ")));
    EXPECT_THAT(file("messages"), Not(HasSubstr("failed")));
    for (const char* left : {"pid.0", "pid.1", "messages"}) std::filesystem::remove(dir_ / left);
  }
}

TEST_F(Launch, RanksDoNotInheritTheLaunchersDisregardOfClosedPipes) {
  const auto former = ::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run(1, "(sleep 0.05; kill -PIPE $$) & wait; sleep 1"), 128 + SIGPIPE);
  ::signal(SIGPIPE, former);
}

TEST_F(Launch, AnIgnoredHangupStaysIgnored) {
  const auto former = ::signal(SIGHUP, SIG_IGN);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::_exit(
        run(1, "echo $$ >$DIR/pid.$RANK; while [ ! -e $DIR/finish ]; do sleep 0.02; done; echo finished"));
  }
  ::signal(SIGHUP, former);
  pids(1);
  ::kill(launcher, SIGHUP);
  std::ofstream(dir_ / "finish") << "now";
  EXPECT_EQ(wait_for(launcher), 0);
  EXPECT_EQ(log(0), "finished\n");
}

TEST_F(Launch, ASecondSignalKillsAtOnce) {
  context_.stop_grace = seconds(3600);
  const pid_t launcher = run_apart(
      2, "trap 'touch $DIR/asked.$RANK' TERM; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.05; done");
  pids(2);
  ::kill(launcher, SIGTERM);
  EXPECT_TRUE(eventually([&] {
    return std::filesystem::exists(dir_ / "asked.0") && std::filesystem::exists(dir_ / "asked.1");
  }));
  ::kill(launcher, SIGINT);
  EXPECT_EQ(wait_for(launcher), 128 + SIGKILL);
  EXPECT_THAT(file("messages"), HasSubstr("second SIGINT: killing the ranks"));
}

TEST_F(Launch, AStopThatTakesTooLongIsKilled) {
  context_.stop_grace = milliseconds(100);
  const pid_t launcher = run_apart(1, "trap '' TERM; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.05; done");
  pids(1);
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(wait_for(launcher), 128 + SIGKILL);
  EXPECT_THAT(file("messages"), HasSubstr("1 of 1 did not end when asked and had to be killed"));
}

TEST_F(Launch, AFailureWhileStoppingIsExplained) {
  const pid_t launcher = run_apart(
      2, "trap 'echo cannot save; exit 6' TERM; echo $$ >$DIR/pid.$RANK; while :; do sleep 0.05; done");
  pids(2);
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(wait_for(launcher), 6);
  EXPECT_THAT(file("messages"), HasSubstr("failed with exit code 6"));
  EXPECT_THAT(file("messages"), HasSubstr("| cannot save"));
}

TEST_F(Launch, WhatCannotStartIsAnErrorAndLeavesNothing) {
  const auto rejection = [&](const LaunchOptions& given) -> std::string {
    try {
      run_launch(given, context_);
    } catch (const OutputError& error) {
      return error.what();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  std::ofstream(dir_ / "plain") << "a file";
  LaunchOptions bad_log = options(1, "exit 0");
  bad_log.log_dir = (dir_ / "plain" / "log").string();
  EXPECT_THAT(rejection(bad_log), HasSubstr("--log_dir " + bad_log.log_dir + " cannot be created"));
  bad_log.log_dir = (dir_ / "plain").string();
  EXPECT_THAT(rejection(bad_log), HasSubstr("--log_dir"));
  std::filesystem::create_directories(dir_ / "full" / "workerlog.0");
  bad_log.log_dir = (dir_ / "full").string();
  EXPECT_THAT(rejection(bad_log), HasSubstr("workerlog.0: Is a directory"));

  LaunchOptions bad_host = options(1, "exit 0");
  bad_host.master_addr = "192.0.2.1";  // an unassigned address (RFC 5737)
  EXPECT_THAT(rejection(bad_host), HasSubstr("cannot listen on --master_addr 192.0.2.1"));

  context_.program = "/nowhere/braid";
  EXPECT_THAT(rejection(options(3, "exit 0")),
              HasSubstr("cannot start /nowhere/braid: No such file or directory"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(Launch, AFullDiskStopsTheLogNotTheRun) {
  std::filesystem::create_directories(dir_ / "log");
  std::filesystem::create_symlink("/dev/full", dir_ / "log" / "workerlog.0");
  EXPECT_EQ(run(1, "echo one; sleep 0.1; echo two"), kOutputErrorExitCode);
  EXPECT_EQ(output_, "one\ntwo\n");
  EXPECT_THAT(messages_,
              HasSubstr("workerlog.0: No space left on device; the output of rank 0 is no longer logged"));
}

TEST_F(Launch, ADeletedLogIsNoticed) {
  EXPECT_EQ(
      run(1, "echo one; while [ ! -s $DIR/log/workerlog.0 ]; do sleep 0.02; done; rm -r $DIR/log; echo two"),
      kOutputErrorExitCode);
  EXPECT_EQ(output_, "one\ntwo\n");
  EXPECT_THAT(messages_, HasSubstr("workerlog.0: it was deleted; the output of rank 0 is no longer logged"));
}

TEST_F(Launch, AnExceptionFromTheSinkLeavesNoProcess) {
  context_.output = [](std::string_view) { throw DataError("terminal is gone"); };
  EXPECT_THROW(run(2, "echo $$ >$DIR/pid.$RANK; echo hello; exec sleep 1000"), DataError);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace braid::launch
