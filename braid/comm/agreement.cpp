#include "braid/comm/agreement.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/comm/store_protocol.h"

namespace braid::comm {
namespace {

constexpr std::string_view kMark = "record 2";
constexpr size_t kMostNamed = 20;
constexpr size_t kMostCharacters = 200;

// Who has each value of something.
using Holders = std::map<std::string, std::vector<int>>;

// The values in the order of their first ranks.
std::vector<std::pair<std::string, std::vector<int>>> in_order(const Holders& holders) {
  std::vector<std::pair<std::string, std::vector<int>>> ordered(holders.begin(), holders.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
  return ordered;
}

std::string shown(const std::string& value) {
  std::string text = value.size() <= kMostCharacters ? value : cat(value.substr(0, kMostCharacters), "...");
  const bool is_plain = !text.empty() && text.find_first_of(" ,;'") == std::string::npos;
  return is_plain ? text : cat("'", text, "'");
}

// "seed: rank 0 has 1, rank 2 has 2", or nothing if all have the same.
std::string difference(const std::string& what, const Holders& holders) {
  if (holders.size() <= 1) return "";
  std::string text;
  for (const auto& [value, ranks] : in_order(holders)) {
    text += cat(text.empty() ? cat(what, ": ") : ", ", ranks_text(ranks),
                ranks.size() == 1 ? " has " : " have ", shown(value));
  }
  return text;
}

// The names of all records' entries, each once, in the order of the first record that has it.
template <typename Names>
std::vector<std::string> all_names(const std::map<int, RankRecord>& records, Names names_of) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& [rank, record] : records) {
    for (const std::string& name : names_of(record)) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> setting_differences(const std::map<int, RankRecord>& all_records) {
  std::map<int, RankRecord> records;
  for (const auto& [rank, record] : all_records) {
    if (!record.introduction.settings.empty()) records.emplace(rank, record);
  }
  std::map<std::string, Holders> holders;
  const std::vector<std::string> names = all_names(records, [](const RankRecord& record) {
    std::vector<std::string> own;
    for (const auto& [name, value] : record.introduction.settings) own.push_back(name);
    return own;
  });
  for (const auto& [rank, record] : records) {
    std::set<std::string> absent(names.begin(), names.end());
    for (const auto& [name, value] : record.introduction.settings) {
      if (absent.erase(name) > 0) holders[name][value].push_back(rank);
    }
    for (const std::string& name : absent) holders[name]["nothing"].push_back(rank);
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (std::string text = difference(name, holders[name]); !text.empty()) found.push_back(std::move(text));
  }
  return found;
}

std::string machines_text(const std::map<int, RankRecord>& records, const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i) {
    text += cat(i == 0 ? "" : ", ", records.at(ranks[i]).host, " (rank ", ranks[i], ")");
  }
  return ranks.size() <= kMostNamed ? text : cat(text, " and ", ranks.size() - kMostNamed, " more");
}

std::vector<std::string> file_differences(const std::map<int, RankRecord>& records) {
  std::map<int, RankRecord> readers;
  for (const auto& [rank, record] : records) {
    if (!record.introduction.files.empty()) readers.emplace(rank, record);
  }
  std::vector<std::string> found;
  const std::vector<std::string> paths = all_names(readers, [](const RankRecord& record) {
    std::vector<std::string> own;
    for (const FileContent& file : record.introduction.files) own.push_back(file.path);
    return own;
  });
  for (const std::string& path : paths) {
    Holders holders;
    for (const auto& [rank, record] : readers) {
      const auto& files = record.introduction.files;
      const auto file =
          std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.path == path; });
      holders[file == files.end() ? "not there" : file->content].push_back(rank);
    }
    if (holders.size() <= 1) continue;
    std::string text;
    for (const auto& [content, ranks] : in_order(holders)) {
      text +=
          cat(text.empty() ? cat(path, " is ") : ", but ", content, " on ", machines_text(readers, ranks));
    }
    found.push_back(std::move(text));
  }
  return found;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (size_t i = 0; i < std::min(texts.size(), kMostNamed); ++i) all += cat(i == 0 ? "" : "; ", texts[i]);
  return texts.size() <= kMostNamed ? all : cat(all, "; and ", texts.size() - kMostNamed, " more");
}

// What holds a rank's ticket rather than its settings.
std::string place_differences(const std::map<int, RankRecord>& records) {
  Holders sizes, ids, versions;
  for (const auto& [rank, record] : records) {
    sizes[record.world_size].push_back(rank);
    ids[record.run_id].push_back(rank);
    versions[record.introduction.braid_version].push_back(rank);
  }
  std::vector<std::string> found;
  for (std::string text :
       {difference("world size", sizes), difference("run id", ids), difference("braid version", versions)}) {
    if (!text.empty()) found.push_back(std::move(text));
  }
  return joined(found);
}

}  // namespace

std::string encode(const RankRecord& record) {
  const Introduction& own = record.introduction;
  std::vector<std::string> settings, files;
  for (const auto& [name, value] : own.settings) {
    settings.push_back(name);
    settings.push_back(value);
  }
  for (const FileContent& file : own.files) {
    files.push_back(file.path);
    files.push_back(file.content);
  }
  return MessageWriter()
      .text(kMark)
      .texts({record.host, record.pid, record.world_size, record.run_id, record.nonce, own.braid_version})
      .texts(settings)
      .texts(files)
      .bytes();
}

RankRecord decode(const std::string& text, int rank) {
  try {
    MessageReader reader(text);
    require<CommError>(reader.text() == kMark, "another format");
    const std::vector<std::string> fields = reader.texts();
    const std::vector<std::string> settings = reader.texts();
    const std::vector<std::string> files = reader.texts();
    require<CommError>(fields.size() == 6 && settings.size() % 2 == 0 && files.size() % 2 == 0,
                       "other fields");
    RankRecord record = {.host = fields[0],
                         .pid = fields[1],
                         .world_size = fields[2],
                         .run_id = fields[3],
                         .nonce = fields[4],
                         .introduction = {.braid_version = fields[5]}};
    for (size_t i = 0; i < settings.size(); i += 2)
      record.introduction.settings.emplace_back(settings[i], settings[i + 1]);
    for (size_t i = 0; i < files.size(); i += 2)
      record.introduction.files.push_back({.path = files[i], .content = files[i + 1]});
    return record;
  } catch (const CommError&) {
    // Another braid version may write other fields; that is then the difference to report.
    throw CommError(
        cat("rank ", rank, " runs a braid with another startup protocol: use the same version on all ranks"));
  }
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  size_t named = 0;
  size_t i = 0;
  while (i < ranks.size() && named < kMostNamed) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_range = end - i >= 3;
    if (!is_range) end = i + 1;
    text += cat(text.empty() ? "" : ", ", ranks[i]);
    if (is_range) text += cat(" to ", ranks[end - 1]);
    ++named;
    i = end;
  }
  if (i < ranks.size()) text += cat(" and ", ranks.size() - i, " more");
  return cat(ranks.size() == 1 ? "rank " : "ranks ", text);
}

bool agree(const RankRecord& a, const RankRecord& b) {
  const Introduction &x = a.introduction, &y = b.introduction;
  return a.world_size == b.world_size && a.run_id == b.run_id && x.braid_version == y.braid_version &&
         (x.settings.empty() || y.settings.empty() || x.settings == y.settings) &&
         (x.files.empty() || y.files.empty() || x.files == y.files);
}

std::string differences(const std::map<int, RankRecord>& records) {
  std::vector<std::string> found;
  const std::vector<std::string> settings = setting_differences(records);
  if (std::string text = place_differences(records); !text.empty())
    found.push_back(cat("the ranks do not agree: ", text));
  if (!settings.empty())
    found.push_back(cat("the ranks do not agree: ", joined(settings), "; give all ranks the same options"));
  // With other options, ranks may well name other files.
  if (settings.empty()) {
    const std::vector<std::string> files = file_differences(records);
    if (!files.empty())
      found.push_back(
          cat("the machines do not hold the same files: ", joined(files),
              "; copy them from the machine that has the right ones to the others, or use a shared "
              "file system"));
  }
  return joined(found);
}

}  // namespace braid::comm
