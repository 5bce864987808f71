#include "braid/launch/process.h"

#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>

#include "braid/base/error.h"

namespace braid::launch {
namespace {

// Everything the child needs between fork and exec, prepared before the fork: the child may neither allocate
// nor lock.
struct Prepared {
  pid_t parent = 0;
  int null = -1;
  int output = -1;
  int error = -1;  // receives errno if the program cannot be started; closed by a successful exec
  int inherited = -1;
  int terminal = -1;
  int last_descriptor = 0;
  const sigset_t* signal_mask = nullptr;
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
};

void close_others_on_exec(int last_descriptor) {
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd <= last_descriptor; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // before Linux 5.11
}

[[noreturn]] void become_program(const Prepared& prepared) {
  ::setpgid(0, 0);
  // The parent may have died before prctl; then nothing would ever end this child.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() != prepared.parent) ::_exit(127);
  ::dup2(prepared.null, 0);
  ::dup2(prepared.output, 1);
  ::dup2(prepared.output, 2);
  close_others_on_exec(prepared.last_descriptor);
  if (prepared.inherited >= 0) ::fcntl(prepared.inherited, F_SETFD, 0);
  if (prepared.terminal >= 0) ::fcntl(prepared.terminal, F_SETFD, 0);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);  // which the launcher ignores
  ::sigprocmask(SIG_SETMASK, prepared.signal_mask, nullptr);
  ::execve(prepared.program, prepared.arguments, prepared.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(prepared.error, &error, sizeof error);
  ::_exit(127);
}

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Pipe open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  pipe.read = above_standard(std::move(pipe.read));
  pipe.write = above_standard(std::move(pipe.write));
  return pipe;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

int last_descriptor() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 65536) return 65536;
  return static_cast<int>(limit.rlim_cur);
}

}  // namespace

Process start_process(const ProcessSpec& spec) {
  std::vector<std::string> arguments = {spec.program};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> environment;
  for (const auto& [name, value] : spec.environment) environment.push_back(name + "=" + value);
  const std::vector<char*> argument_pointers = pointers(arguments);
  const std::vector<char*> environment_pointers = pointers(environment);

  const FileDescriptor null = take_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open /dev/null");
  Pipe output = open_pipe();
  Pipe error = open_pipe();
  const Prepared prepared = {.parent = ::getpid(),
                             .null = null.get(),
                             .output = output.write.get(),
                             .error = error.write.get(),
                             .inherited = spec.inherited_fd.value_or(-1),
                             .terminal = spec.terminal_fd.value_or(-1),
                             .last_descriptor = last_descriptor(),
                             .signal_mask = &spec.signal_mask,
                             .program = arguments[0].c_str(),
                             .arguments = argument_pointers.data(),
                             .environment = environment_pointers.data()};
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become_program(prepared);

  ::setpgid(pid, pid);  // both sides do it, so that the group exists whichever side signals it first
  error.write.close();
  int code = 0;
  ssize_t count = 0;
  do count = ::read(error.read.get(), &code, sizeof code);
  while (count < 0 && errno == EINTR);
  if (count == sizeof code) {
    ::waitpid(pid, nullptr, 0);
    throw ConfigError(cat("cannot start ", spec.program, ": ", std::strerror(code)));
  }
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  return {pid, std::move(output.read)};
}

std::optional<Ending> reap(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    require<InternalError>(errno == EINTR, "waitid of process ", pid, ": ", std::strerror(errno));
    return std::nullopt;
  }
  if (info.si_pid != pid) return std::nullopt;
  // Not yet reaped, so the group's id cannot have been reused.
  ::kill(-pid, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  do reaped = ::waitpid(pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  if (WIFSIGNALED(status)) return Ending{128 + WTERMSIG(status), WTERMSIG(status)};
  return Ending{WEXITSTATUS(status), std::nullopt};
}

}  // namespace braid::launch
