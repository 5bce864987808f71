// How the program ends because of an exception: one mapping from what was thrown, by whomever, to an exit
// code and a sentence.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace braid {

/// Exit codes besides 0. A command that a signal stopped ends with kSignalExitCode + the signal's number.
inline constexpr int kUserErrorExitCode = 2;       // options, files, combinations: what the user can fix
inline constexpr int kInternalErrorExitCode = 70;  // a bug in braid (EX_SOFTWARE of sysexits.h)
inline constexpr int kSystemErrorExitCode = 71;    // memory, the operating system (EX_OSERR)
inline constexpr int kOutputErrorExitCode = 74;    // an output could not be created or written (EX_IOERR)
inline constexpr int kPeerFailedExitCode = 76;     // another rank failed or did not respond (EX_PROTOCOL)
inline constexpr int kSignalExitCode = 128;

struct Failure {
  int exit_code = 0;
  std::string sentence{};  ///< without the name of who failed
  bool is_out_of_memory = false;
};

/// The failure that `thrown` means. Out of memory is recognised however it is thrown: OutOfMemoryError,
/// std::bad_alloc, std::length_error, a system error of that kind, or a library's exception that says so.
/// Exceptions that are neither braid's nor known here are bugs. `thrown` is not null. Does not throw.
Failure failure_of(const std::exception_ptr& thrown) noexcept;

/// Whether `error` is an out of memory, as for failure_of. For code that turns foreign exceptions into errors
/// of its own: this one is to be passed on as it is.
bool is_out_of_memory(const std::exception& error) noexcept;

/// What a failed system call says about creating or writing an output: "free some space, ..." for ENOSPC.
std::string_view write_remedy(int error);

/// What this process has used of the memory that it may use, as a clause that follows "out of memory":
/// "4.00 GiB in use, ulimit -v allows 4.00 GiB". Empty if the system does not say.
std::string memory_in_use();

}  // namespace braid
