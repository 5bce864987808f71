#include "braid/schedule/passes/communication.h"

#include <map>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/check.h"
#include "braid/schedule/replay.h"

namespace braid::schedule {
namespace {

// The messages from one rank to another, in the order in which the sender produces them: activations and
// gradients together, since a transport without tags (NCCL) matches them by order alone.
struct Channel {
  std::vector<Handover> messages;
  size_t posted = 0;
};

// Every compute action in three steps: post the receives it needs, run it, send what it made.
enum class Step { kPost, kRun, kSend };
constexpr size_t kSteps = 3;

class Communication {
 public:
  explicit Communication(const Schedule& compute)
      : compute_(compute),
        result_{.name = compute.name,
                .shape = compute.shape,
                .placement = compute.placement,
                .table = compute.table,
                .step_end = compute.step_end,
                .data = compute.data},
        is_posted_(static_cast<size_t>(handover_count(compute.shape))),
        is_available_(is_posted_.size()) {
    result_.ranks.resize(compute.ranks.size());
    for (int32_t rank = 0; rank < compute.shape.ranks; ++rank) {
      for (const Action& action : compute.ranks[static_cast<size_t>(rank)]) {
        const std::optional<Handover> output = output_of(compute, rank, action);
        if (output && !output->is_local()) channel_of(*output).messages.push_back(*output);
      }
    }
  }

  Schedule run() {
    std::vector<size_t> lengths;
    for (const std::vector<Action>& list : compute_.ranks) lengths.push_back(kSteps * list.size());
    Replay replay(std::move(lengths));
    const auto try_step = [&](int32_t rank, size_t position) {
      const Action& action = compute_.ranks[static_cast<size_t>(rank)][position / kSteps];
      switch (static_cast<Step>(position % kSteps)) {
        case Step::kPost:
          return try_post(rank, action);
        case Step::kRun:
          return try_compute(rank, action);
        case Step::kSend:
          return try_send(rank, action);
      }
      throw InternalError("no such step");
    };
    for (replay.run(try_step); replay.first_stuck(); replay.run(try_step)) {
      const std::vector<std::vector<int32_t>> cycles = replay.cycles();
      require<InternalError>(!cycles.empty(), "the ranks of ", compute_.name, " are stuck without a cycle");
      for (const std::vector<int32_t>& cycle : cycles) break_cycle(replay, cycle);
    }
    return std::move(result_);
  }

 private:
  Channel& channel_of(const Handover& message) { return channels_[{message.from.rank, message.to.rank}]; }

  void append(int32_t rank, const Action& action) {
    result_.ranks[static_cast<size_t>(rank)].push_back(action);
  }

  // Posts on the receiver everything up to `message`, so that the pair's order is the sender's.
  void post_up_to(const Handover& message) {
    Channel& channel = channel_of(message);
    while (!is_posted_[static_cast<size_t>(message.tag)]) {
      const Handover& next = channel.messages.at(channel.posted++);
      append(next.to.rank, receive_action(next));
      is_posted_[static_cast<size_t>(next.tag)] = true;
    }
  }

  std::optional<int32_t> try_post(int32_t rank, const Action& action) {
    const std::optional<Handover> input = input_of(compute_, rank, action);
    if (input && !input->is_local()) post_up_to(*input);
    return std::nullopt;
  }

  std::optional<int32_t> try_compute(int32_t rank, const Action& action) {
    const std::optional<Handover> input = input_of(compute_, rank, action);
    if (input && !is_available_[static_cast<size_t>(input->tag)]) return input->from.rank;
    append(rank, action);
    const std::optional<Handover> output = output_of(compute_, rank, action);
    if (output && output->is_local()) is_available_[static_cast<size_t>(output->tag)] = true;
    return std::nullopt;
  }

  std::optional<int32_t> try_send(int32_t rank, const Action& action) {
    const std::optional<Handover> output = output_of(compute_, rank, action);
    if (!output || output->is_local()) return std::nullopt;
    if (!is_posted_[static_cast<size_t>(output->tag)]) return output->to.rank;
    append(rank, send_action(*output));
    is_available_[static_cast<size_t>(output->tag)] = true;
    return std::nullopt;
  }

  // Of the cycle's sends, lets the one to the lowest rank through: that rank posts the receive where it
  // stands. Any choice is correct; always choosing the same side makes neighbours alternate instead of both
  // posting early.
  void break_cycle(Replay& replay, const std::vector<int32_t>& cycle) {
    std::optional<Handover> chosen;
    for (const int32_t rank : cycle) {
      const size_t position = replay.position(rank);
      if (static_cast<Step>(position % kSteps) != Step::kSend) continue;
      const Action& action = compute_.ranks[static_cast<size_t>(rank)][position / kSteps];
      const std::optional<Handover> output = output_of(compute_, rank, action);
      if (!chosen || output->to.rank < chosen->to.rank) chosen = output;
    }
    require<InternalError>(chosen.has_value(), "a cycle of ", compute_.name, " has no send");
    post_up_to(*chosen);
    // Whatever was posted before it was this sender's as well, so no other rank waits for what has just been
    // posted.
    replay.wake(chosen->from.rank);
  }

  const Schedule& compute_;
  Schedule result_;
  std::map<std::pair<int32_t, int32_t>, Channel> channels_;  // by sender and receiver
  std::vector<char> is_posted_;
  std::vector<char> is_available_;
};

}  // namespace

Schedule insert_communication(const Schedule& schedule) {
  require<ConfigError>(!has_messages(schedule), "schedule ", schedule.name, " has messages already");
  check(schedule);
  return Communication(schedule).run();
}

}  // namespace braid::schedule
