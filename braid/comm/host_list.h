// Slurm's compressed lists: host names ("node[01-03,7]") and tasks per node ("2(x3),1").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid::comm {

/// The hosts of a Slurm host list, in its order. Several brackets in one name multiply, with the last one
/// varying fastest, and numbers keep their written width ("n[08-10]" gives n08, n09, n10).
/// Throws ConfigError on an empty list, an unclosed bracket, a descending range, or more than 100,000 hosts.
std::vector<std::string> expand_host_list(std::string_view text);

/// Tasks on each node: "2(x3),1" gives 2, 2, 2, 1.
/// Throws ConfigError on anything that is not such a list.
std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace braid::comm
