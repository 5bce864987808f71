// Whether output ends on a terminal, and what may be done there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace braid::cli {

/// The width of the terminal that `descriptor` leads to; nothing if it leads elsewhere, or if the terminal
/// (TERM=dumb) cannot erase a line. A rank of `braid launch`, whose output passes through the launcher, goes
/// by BRAID_PROGRESS=1 and COLUMNS. 80 where the width is unknown.
std::optional<int64_t> terminal_columns(int descriptor,
                                        const std::map<std::string, std::string>& environment);

/// Whether a terminal may be given colours: unless NO_COLOR is set to anything but the empty text (see
/// no-color.org) or TERM is dumb.
bool allows_colours(const std::map<std::string, std::string>& environment);

}  // namespace braid::cli
