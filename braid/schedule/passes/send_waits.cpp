#include "braid/schedule/passes/send_waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/check.h"

namespace braid::schedule {
namespace {

// How many sends to the same rank may follow an unproven one before it is waited for.
constexpr size_t kWindow = 2;

// A send of one rank, and where its message is sent and used.
struct Sent {
  Handover message;
  size_t position = 0;           // of the send, in the sender's list
  size_t consumer_position = 0;  // of the compute action that uses it, in the receiver's list
};

using Pair = std::pair<int32_t, int32_t>;  // sender, receiver

// The sends of every ordered pair of ranks, in the sender's order.
std::map<Pair, std::vector<Sent>> sends_by_pair(const Schedule& schedule) {
  std::vector<size_t> consumer(static_cast<size_t>(handover_count(schedule.shape)), 0);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const std::optional<Handover> input = input_of(schedule, rank, list[i]);
      if (input) consumer[static_cast<size_t>(input->tag)] = i;
    }
  }
  std::map<Pair, std::vector<Sent>> result;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    const std::vector<Action>& list = schedule.ranks[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_send(list[i].op)) continue;
      const Handover message = *message_of(schedule, rank, list[i]);
      result[{rank, message.to.rank}].push_back({message, i, consumer[static_cast<size_t>(message.tag)]});
    }
  }
  return result;
}

// For each of `answers`, the earliest position at which the asking rank uses it or one after it.
std::vector<size_t> earliest_uses(const std::vector<Sent>& answers) {
  std::vector<size_t> uses(answers.size());
  for (size_t i = answers.size(); i > 0; --i) {
    uses[i - 1] = answers[i - 1].consumer_position;
    if (i < answers.size()) uses[i - 1] = std::min(uses[i - 1], uses[i]);
  }
  return uses;
}

using WaitsAt = std::vector<std::vector<Action>>;  // by the position that they follow

// Adds the waits for `sends`, given everything that their receiver sends back.
void plan_waits(const std::vector<Sent>& sends, const std::vector<Sent>& answers, WaitsAt& waits_at) {
  const std::vector<size_t> uses = earliest_uses(answers);
  for (size_t i = 0; i < sends.size(); ++i) {
    const auto answer =
        std::upper_bound(answers.begin(), answers.end(), sends[i].consumer_position,
                         [](size_t position, const Sent& sent) { return position < sent.position; });
    size_t after = waits_at.size() - 1;
    if (answer != answers.end()) {
      after = uses[static_cast<size_t>(answer - answers.begin())];
    } else if (i + kWindow < sends.size()) {
      after = sends[i + kWindow].position;
    }
    waits_at[after].push_back(wait_action(sends[i].message));
  }
}

// The rank's list with the waits in it: none between a compute action and the sends of its result, which are
// urgent.
std::vector<Action> with_waits(const std::vector<Action>& list, const WaitsAt& waits_at) {
  std::vector<Action> result;
  result.reserve(list.size() * 3 / 2);
  std::vector<Action> due;
  bool has_norm = false;
  const auto flush = [&] {
    result.insert(result.end(), due.begin(), due.end());
    due.clear();
  };
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_compute(list[i].op)) flush();
    if (list[i].op == Op::kNorm) {
      has_norm = true;
      due.insert(due.end(), waits_at.back().begin(), waits_at.back().end());
      flush();
    }
    result.push_back(list[i]);
    due.insert(due.end(), waits_at[i].begin(), waits_at[i].end());
    if (is_send(list[i].op)) flush();
  }
  flush();
  if (!has_norm) result.insert(result.end(), waits_at.back().begin(), waits_at.back().end());
  return result;
}

}  // namespace

Schedule insert_send_waits(const Schedule& schedule) {
  const CheckReport report = check(schedule);
  require<ConfigError>(report.messages == 0 || has_messages(schedule), "schedule ", schedule.name,
                       " has no messages yet: insert communication first");
  for (const std::vector<Action>& list : schedule.ranks) {
    require<ConfigError>(
        std::none_of(list.begin(), list.end(), [](const Action& a) { return is_wait_send(a.op); }),
        "schedule ", schedule.name, " has waits already");
  }
  std::vector<WaitsAt> waits_at;
  for (const std::vector<Action>& list : schedule.ranks) waits_at.emplace_back(list.size() + 1);
  const std::map<Pair, std::vector<Sent>> sends = sends_by_pair(schedule);
  for (const auto& [pair, from_here] : sends) {
    const auto back = sends.find({pair.second, pair.first});
    plan_waits(from_here, back == sends.end() ? std::vector<Sent>{} : back->second,
               waits_at[static_cast<size_t>(pair.first)]);
  }
  Schedule result = schedule;
  for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
    result.ranks[rank] = with_waits(schedule.ranks[rank], waits_at[rank]);
  }
  return result;
}

}  // namespace braid::schedule
