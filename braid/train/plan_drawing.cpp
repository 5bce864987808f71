#include "braid/train/plan_drawing.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/report/mesh_drawing.h"

namespace braid::train {
namespace {

using mesh::Axis;

std::string size_text(int64_t bytes) { return bytes_text(static_cast<uint64_t>(bytes)); }

std::string_view plural_of(comm::Collective collective) {
  switch (collective) {
    case comm::Collective::kAllReduceSum:
      return "all-reduces";
    case comm::Collective::kReduceScatterSum:
      return "reduce-scatters";
    case comm::Collective::kBroadcast:
      return "broadcasts";
    case comm::Collective::kAllGather:
      return "all-gathers";
    case comm::Collective::kBarrier:
      return "barriers";
  }
  return "";
}

/// The least and the most of something.
struct Range {
  int64_t least = 0;
  int64_t most = 0;

  void add(int64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

template <typename ToText>
std::string range_text(const Range& range, const ToText& to_text) {
  const std::string least = to_text(range.least);
  const std::string most = to_text(range.most);
  return least == most ? most : cat(least, " to ", most);
}

/// "a rank sends in a step: 128 all-reduces, 4.00 GiB; ..." over all ranks of the plan.
std::string collective_note(const RunPlan& plan, Axis axis) {
  std::map<comm::Collective, std::pair<Range, Range>> kinds;  // counts and bytes
  for (const RankPlan& rank : plan.ranks) {
    const auto traffic = rank.collectives.find(axis);
    if (traffic == rank.collectives.end()) continue;
    for (const auto& [kind, tally] : traffic->second.tallies) {
      kinds.try_emplace(kind, Range{tally.count, tally.count}, Range{tally.bytes, tally.bytes});
    }
  }
  for (auto& [kind, ranges] : kinds) {
    for (const RankPlan& rank : plan.ranks) {
      comm::Tally tally;
      const auto traffic = rank.collectives.find(axis);
      if (traffic != rank.collectives.end() && traffic->second.tallies.contains(kind)) {
        tally = traffic->second.tallies.at(kind);
      }
      ranges.first.add(tally.count);
      ranges.second.add(tally.bytes);
    }
  }
  std::string text;
  for (const auto& [kind, ranges] : kinds) {
    text += cat(text.empty() ? "a rank sends in a step: " : "; ",
                range_text(ranges.first, [](int64_t count) { return cat(count); }), " ", plural_of(kind),
                ", ", range_text(ranges.second, size_text));
  }
  return text.empty() ? "no messages in a step" : text;
}

/// Of the pipeline's links; nodes matter, as a link is between two ranks.
std::vector<std::string> link_notes(const RunPlan& plan, int32_t ranks_per_node) {
  const mesh::MeshShape& shape = plan.strategy.mesh;
  Range counts;
  Range bytes;
  int64_t across = 0;
  bool is_first = true;
  for (int32_t rank = 0; rank < static_cast<int32_t>(shape.world_size()); ++rank) {
    const mesh::Coordinates place = coordinates_of(shape, rank);
    comm::Tally sent;
    for (const auto& [route, tally] : plan.rank_at(place).messages.tallies) {
      if (route.direction != comm::Direction::kSend) continue;
      sent.count += tally.count;
      sent.bytes += tally.bytes;
      mesh::Coordinates there = place;
      there.pp = route.peer;
      if (rank_of(shape, there) / ranks_per_node != rank / ranks_per_node) across += tally.bytes;
    }
    if (std::exchange(is_first, false)) {
      counts = {sent.count, sent.count};
      bytes = {sent.bytes, sent.bytes};
    }
    counts.add(sent.count);
    bytes.add(sent.bytes);
  }
  return {cat("a rank sends in a step: ", range_text(counts, [](int64_t count) { return cat(count); }),
              " messages, ", range_text(bytes, size_text), "; of all ranks together ", size_text(across),
              " from node to node")};
}

}  // namespace

std::string draw_plan(const RunPlan& plan, int32_t ranks_per_node) {
  const mesh::MeshShape& shape = plan.strategy.mesh;
  require<ConfigError>(ranks_per_node >= 1, "a node needs at least 1 rank, got ", ranks_per_node);
  const int64_t ranks = shape.world_size();
  const int64_t nodes = (ranks + ranks_per_node - 1) / ranks_per_node;
  report::MeshPicture picture = {
      .title = cat(mesh::to_string(shape), ": ", counted(ranks, "rank"), " on ", counted(nodes, "node"), ", ",
                   plan.compute.name, ", ", counted(plan.training.microbatches, "microbatch", "microbatches"),
                   " a step"),
      .mesh = shape,
      .ranks_per_node = ranks_per_node};
  for (const Axis axis : mesh::kAxes) {
    if (degree(shape, axis) == 1) continue;
    picture.notes.push_back({.axis = axis,
                             .lines = axis == Axis::kPp ? link_notes(plan, ranks_per_node)
                                                        : std::vector{collective_note(plan, axis)}});
  }
  picture.footer = ranks == 1 ? "one rank: no messages"
                              : cat("among all ranks, once a step: 1 all-gather of ",
                                    counted(kStepExchangeNumel, "number"), " from each");
  return report::draw_mesh(picture);
}

}  // namespace braid::train
