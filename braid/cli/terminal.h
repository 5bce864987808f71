// Whether output goes to a terminal, and what the terminal supports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace braid::cli {

/// The width of the terminal that `descriptor` refers to; nothing if it is not a terminal, or one that cannot
/// erase a line (TERM=dumb). For a rank of `braid launch`, whose output passes through the launcher,
/// BRAID_PROGRESS=1 says that it ends on a terminal, whose width is that of the descriptor BRAID_TERMINAL_FD
/// or, without it, COLUMNS. 80 if the width is unknown.
std::optional<int64_t> terminal_columns(int descriptor,
                                        const std::map<std::string, std::string>& environment);

/// Whether colours may be used: unless NO_COLOR is set and not empty (see no-color.org) or TERM is dumb.
bool allows_colours(const std::map<std::string, std::string>& environment);

}  // namespace braid::cli
