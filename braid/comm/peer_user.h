// Who is at the other end of a connection within this machine. Where the ranks of one machine share no
// secret, this stands in for it.
#pragma once

#include <sys/types.h>

#include <optional>

namespace braid::comm {

/// The user who owns the other end of the connected TCP socket `fd`, if that end is an open socket of this
/// machine (network namespace); nothing for a connection from elsewhere, or one that the other end has
/// closed.
std::optional<uid_t> user_of_peer(int fd);

}  // namespace braid::comm
