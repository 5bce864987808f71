#include "braid/base/failure.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <system_error>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid {
namespace {

constexpr std::string_view kBug =
    "\nThis is a bug in braid: please report it with the command line and this message.";

bool is_output_error(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EROFS || error == EPIPE;
}

// As libtorch's allocators put it. Its exceptions have no type of their own for the CPU.
bool says_out_of_memory(std::string_view text) {
  for (const std::string_view phrase : {"can't allocate memory", "not enough memory", "out of memory",
                                        "Cannot allocate memory", "std::bad_alloc"}) {
    if (text.find(phrase) != text.npos) return true;
  }
  return false;
}

bool is_error_of_braid(const std::exception& error) {
  return dynamic_cast<const ConfigError*>(&error) != nullptr ||
         dynamic_cast<const ShapeError*>(&error) != nullptr ||
         dynamic_cast<const DataError*>(&error) != nullptr ||
         dynamic_cast<const OutputError*>(&error) != nullptr ||
         dynamic_cast<const CommError*>(&error) != nullptr ||
         dynamic_cast<const InternalError*>(&error) != nullptr;
}

// The value of a line such as "VmPeak:   123456 kB" of a file under /proc, in bytes.
std::optional<uint64_t> proc_bytes(const char* file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const auto number =
        parse_int(trim(std::string_view(line).substr(name.size(), line.rfind(' ') - name.size())));
    if (number) return static_cast<uint64_t>(*number) * 1024;
  }
  return std::nullopt;
}

std::string out_of_memory_text(std::string_view reason) {
  std::string text = "out of memory";
  const std::string use = memory_in_use();
  if (!use.empty()) text += " (" + use + ")";
  if (!reason.empty()) text += cat(": ", reason);
  return text;
}

// "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to
// allocate 400 bytes. Error code 12 (Cannot allocate memory)", with a stack trace behind: the number is what
// people need.
std::string library_reason(std::string_view what) {
  constexpr std::string_view kTried = "tried to allocate ";
  what = what.substr(0, what.find('\n'));
  const size_t tried = what.find(kTried);
  if (tried == what.npos) return {};
  const std::string_view rest = what.substr(tried + kTried.size());
  if (const auto bytes = parse_int(rest.substr(0, rest.find(' '))); bytes && *bytes >= 0)
    return cat("a tensor of ", bytes_text(static_cast<uint64_t>(*bytes)), " does not fit");
  return {};
}

// What to do where the system has no more of something; empty for other errors.
std::string_view limit_remedy(int error) {
  if (error == EMFILE || error == ENFILE) return "raise the limit of open files (ulimit -n)";
  if (error == EAGAIN)
    return "raise the limit of threads (ulimit -u) or of memory (ulimit -v), or use fewer threads";
  return {};
}

// The limit that a library's exception without a code is about, by the system's own words; 0 if it is about
// none.
int limit_named_in(std::string_view text) {
  for (const int error : {EMFILE, ENFILE, EAGAIN}) {
    if (text.find(std::strerror(error)) != text.npos) return error;
  }
  return 0;
}

std::string system_sentence(const std::system_error& error) {
  const std::string_view remedy = limit_remedy(error.code().value());
  return remedy.empty() ? error.what() : cat(error.what(), "; ", remedy);
}

Failure classify(const std::exception& error) {
  if (const auto* memory = dynamic_cast<const OutOfMemoryError*>(&error))
    return {kSystemErrorExitCode, out_of_memory_text(memory->what()), true};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {kSystemErrorExitCode, out_of_memory_text(""), true};
  if (dynamic_cast<const std::length_error*>(&error) != nullptr)
    return {kSystemErrorExitCode, out_of_memory_text(cat("more than any machine has (", error.what(), ")")),
            true};
  if (dynamic_cast<const OutputError*>(&error) != nullptr) return {kOutputErrorExitCode, error.what()};
  if (dynamic_cast<const CommError*>(&error) != nullptr) return {kPeerFailedExitCode, error.what()};
  if (dynamic_cast<const InternalError*>(&error) != nullptr)
    return {kInternalErrorExitCode, cat(error.what(), kBug)};
  if (is_error_of_braid(error)) return {kUserErrorExitCode, error.what()};
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    const int code = system->code().value();
    if (code == ENOMEM) return {kSystemErrorExitCode, out_of_memory_text(error.what()), true};
    if (is_output_error(code)) return {kOutputErrorExitCode, cat(error.what(), "; ", write_remedy(code))};
    return {kSystemErrorExitCode, system_sentence(*system)};
  }
  if (says_out_of_memory(error.what()))
    return {kSystemErrorExitCode, out_of_memory_text(library_reason(error.what())), true};
  if (const int limit = limit_named_in(error.what()))
    return {kSystemErrorExitCode,
            cat("a limit of the system was reached: ", std::strerror(limit), "; ", limit_remedy(limit))};
  return {kInternalErrorExitCode, cat(error.what(), kBug)};
}

}  // namespace

Failure failure_of(const std::exception_ptr& thrown) noexcept {
  try {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      return classify(error);
    } catch (...) {
      return {kInternalErrorExitCode, cat("unknown exception", kBug)};
    }
  } catch (...) {  // no memory even for the sentence: this one needs none
    return {kSystemErrorExitCode, "out of memory", true};
  }
}

bool is_out_of_memory(const std::exception& error) noexcept {
  if (dynamic_cast<const OutOfMemoryError*>(&error) != nullptr) return true;
  if (is_error_of_braid(error)) return false;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) return true;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error))
    return system->code().value() == ENOMEM;
  return says_out_of_memory(error.what());
}

std::string_view write_remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space, raise the quota or file size limit, or write to another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a directory that this user can write to";
    case ENOENT:
    case ENOTDIR:
      return "create the directory first";
    case EISDIR:
      return "name a file, not a directory";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "check the disk or the mount, or write elsewhere";
  }
}

std::string memory_in_use() {
  struct Limit {
    int resource;
    const char* option;
    const char* peak;
  };
  // The peaks, since what failed has been freed by now.
  for (const Limit& limit :
       {Limit{RLIMIT_AS, "ulimit -v", "VmPeak:"}, Limit{RLIMIT_DATA, "ulimit -d", "VmData:"}}) {
    rlimit allowed{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &allowed) != 0 ||
        allowed.rlim_cur == RLIM_INFINITY)
      continue;
    const std::optional<uint64_t> used = proc_bytes("/proc/self/status", limit.peak);
    return cat(used ? cat(bytes_text(*used), " in use, ") : "", limit.option, " allows ",
               bytes_text(static_cast<uint64_t>(allowed.rlim_cur)));
  }
  const std::optional<uint64_t> used = proc_bytes("/proc/self/status", "VmHWM:");
  const std::optional<uint64_t> free = proc_bytes("/proc/meminfo", "MemAvailable:");
  if (!used || !free) return {};
  return cat("this process has used ", bytes_text(*used), ", and the machine has ", bytes_text(*free),
             " left");
}

}  // namespace braid
