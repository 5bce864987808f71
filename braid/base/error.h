// Error types. A message says what was wrong, with name and value, and what to do.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace braid {

/// An error that the user can fix: a flag, an option file, a combination of settings.
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor of the wrong shape or dtype.
struct ShapeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A damaged or unsuitable file. The message names the file, the offset if known, and the remedy.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An output that cannot be created or written: a full disk, a directory that is not there or not writable, a
/// reader that has left. The message names the path, the system's reason and the remedy.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Memory that the system does not give. The message says what was being allocated, how much, and what to
/// lower. Where that is not known, std::bad_alloc is thrown as usual; failure_of (failure.h) treats both
/// alike.
struct OutOfMemoryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A peer that failed, left or did not answer in time. The message names the rank, the peer and the action.
struct CommError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A bug in braid.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

/// The concatenation of the parts, as operator<< writes them.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws Error with the concatenated parts unless `condition` holds.
template <typename Error, typename... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) throw Error(cat(parts...));
}

}  // namespace braid
