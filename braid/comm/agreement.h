// What the ranks of a run must agree on, and how a difference is told.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace braid::comm {

/// A file as one machine sees it.
struct FileContent {
  std::string path;
  std::string content;  // "sha256:...", or why it cannot be read: equal texts mean equal content

  friend bool operator==(const FileContent&, const FileContent&) = default;
};

/// What must be equal on all ranks before a run starts.
struct Introduction {
  std::string braid_version;
  std::vector<std::pair<std::string, std::string>> settings{};  // name and value; none: unstated
  /// Of the files that the settings name; from one rank of each machine, the others leave it empty.
  std::vector<FileContent> files{};
};

/// One rank's description of itself.
struct RankRecord {
  std::string host, pid, world_size, run_id, nonce;
  Introduction introduction;
};

/// The record as text for the store, and back. `decode` throws CommError naming the rank if the text is not
/// that of a record.
std::string encode(const RankRecord& record);
RankRecord decode(const std::string& text, int rank);

/// "rank 3", "ranks 0, 1", "ranks 0 to 6, 9". `ranks` ascend.
std::string ranks_text(const std::vector<int>& ranks);

/// Whether two ranks agree in everything that both state.
bool agree(const RankRecord& a, const RankRecord& b);

/// What the records do not agree on, for people, and what to do; empty if they agree. Names at most 20
/// settings and 20 files: "seed: rank 0 has 1, ranks 1 to 3 have 2".
std::string differences(const std::map<int, RankRecord>& records);

}  // namespace braid::comm
