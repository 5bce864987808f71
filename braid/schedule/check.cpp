#include "braid/schedule/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "braid/base/error.h"
#include "braid/schedule/check_segments.h"
#include "braid/schedule/check_step_end.h"
#include "braid/schedule/clock.h"
#include "braid/schedule/replay.h"

namespace braid::schedule {
namespace {

const std::vector<Action>& list_of(const Schedule& schedule, int32_t rank) {
  return schedule.ranks[static_cast<size_t>(rank)];
}

// F, B, I and W of one rank: each once, in an order that its own data allows, weight gradients ascending.
class ComputeRules {
 public:
  ComputeRules(const Schedule& schedule, int32_t rank)
      : schedule_(schedule),
        rank_(rank),
        done_(static_cast<size_t>(schedule.shape.chunks_per_rank) *
              static_cast<size_t>(schedule.shape.microbatches)),
        next_weight_(static_cast<size_t>(schedule.shape.chunks_per_rank), 0) {
    const Place last = place_of(schedule, schedule.shape.stages() - 1);
    if (last.rank == rank) last_stage_chunk_ = last.chunk;
  }

  void visit(size_t position) {
    const Action& action = list_of(schedule_, rank_)[position];
    if (!is_compute(action.op)) return;
    // A W in hand runs within the action, so what it needs must be there before.
    if (action.weight.exists()) visit_weight(*weight_action(action), position);
    Done& done = at(action.chunk, action.microbatch);
    const int32_t segments = segments_of_chunk(action.chunk);
    if (action.op == Op::kForward) {
      require_at(done.forward < segments, schedule_, rank_, position, "this forward has run before");
      advance(done.forward, action, action.segment, position);
      if (action.chunk == last_stage_chunk_) {
        require_at(action.microbatch == next_last_forward_, schedule_, rank_, position,
                   "the last stage's forwards must come in ascending order of microbatches, the next is ",
                   next_last_forward_, " (the loss is made there, and with it gradients that add up)");
        if (done.forward == segments) ++next_last_forward_;
      }
    }
    const int32_t from_last = action.segment == kAllSegments ? kAllSegments : segments - 1 - action.segment;
    if (is_input_gradient(action.op)) {
      require_at(done.forward == segments, schedule_, rank_, position,
                 "a backward needs its forward before it");
      require_at(done.input < segments, schedule_, rank_, position,
                 "the backward of this microbatch has run before");
      advance(done.input, action, from_last, position);
    }
    if (is_weight_gradient(action.op)) visit_weight(action, position);
  }

  void finish() const {
    const size_t end = list_of(schedule_, rank_).size();
    for (int32_t chunk = 0; chunk < schedule_.shape.chunks_per_rank; ++chunk) {
      for (int32_t microbatch = 0; microbatch < schedule_.shape.microbatches; ++microbatch) {
        const Done& done = at(chunk, microbatch);
        const auto missing = [&](bool is_done, Op op, std::string_view alternative) {
          require_at(is_done, schedule_, rank_, end, to_string(Action{op, chunk, microbatch}), alternative,
                     " is missing");
        };
        const int32_t segments = segments_of_chunk(chunk);
        missing(done.forward == segments, Op::kForward, "");
        missing(done.input == segments, Op::kBackward, " (or I and W)");
        missing(done.weight == segments, Op::kBackwardWeight, "");
      }
    }
  }

 private:
  // How many segments of a microbatch have had their F, I and W: F in ascending order, the others in
  // descending order.
  struct Done {
    int32_t forward = 0;
    int32_t input = 0;
    int32_t weight = 0;
  };

  void visit_weight(const Action& action, size_t position) {
    Done& done = at(action.chunk, action.microbatch);
    const int32_t segments = segments_of_chunk(action.chunk);
    const int32_t from_last = action.segment == kAllSegments ? kAllSegments : segments - 1 - action.segment;
    require_at(from_last == kAllSegments ? done.input == segments : done.input > from_last, schedule_, rank_,
               position, "W needs the I of its microbatch before it");
    require_at(done.weight < segments, schedule_, rank_, position,
               "the weight gradients of this microbatch were made before");
    int32_t& next = next_weight_[static_cast<size_t>(action.chunk)];
    require_at(action.microbatch == next, schedule_, rank_, position,
               "weight gradients must add up in ascending order of microbatches, the next is ", next,
               " (another order would change the rounding of the sums)");
    advance(done.weight, action, from_last, position);
    if (done.weight == segments) ++next;
  }

  int32_t segments_of_chunk(int32_t chunk) const {
    return segments_of(schedule_, stage_of(schedule_, {.rank = rank_, .chunk = chunk}));
  }

  // Counts the segments of `action`, of which `index` is the first in the order of the op.
  void advance(int32_t& done, const Action& action, int32_t index, size_t position) const {
    if (index == kAllSegments) {
      require_at(done == 0, schedule_, rank_, position, "some of its segments have run before");
      done = segments_of_chunk(action.chunk);
      return;
    }
    require_at(
        done == index, schedule_, rank_, position,
        "a chunk's segments run from the first to the last in F and from the last to the first after it");
    ++done;
  }

  size_t index(int32_t chunk, int32_t microbatch) const {
    return static_cast<size_t>(chunk) * static_cast<size_t>(schedule_.shape.microbatches) +
           static_cast<size_t>(microbatch);
  }
  Done& at(int32_t chunk, int32_t microbatch) { return done_[index(chunk, microbatch)]; }
  const Done& at(int32_t chunk, int32_t microbatch) const { return done_[index(chunk, microbatch)]; }

  const Schedule& schedule_;
  int32_t rank_;
  std::vector<Done> done_;
  std::vector<int32_t> next_weight_;
  std::optional<int32_t> last_stage_chunk_;  // if the last stage is on this rank
  int32_t next_last_forward_ = 0;
};

void check_compute(const Schedule& schedule, int32_t rank) {
  ComputeRules rules(schedule, rank);
  for (size_t i = 0; i < list_of(schedule, rank).size(); ++i) rules.visit(i);
  rules.finish();
}

bool contains(const Schedule& schedule, bool (*wanted)(Op)) {
  for (const std::vector<Action>& list : schedule.ranks) {
    for (const Action& action : list) {
      if (wanted(action.op)) return true;
    }
  }
  return false;
}

// Where each handover is made, sent, received and waited for, by its tag.
struct Positions {
  explicit Positions(const PipelineShape& shape) {
    const auto count = static_cast<size_t>(handover_count(shape));
    for (auto* positions : {&made, &sent, &received, &waited}) positions->assign(count, kNever);
  }

  static constexpr uint32_t kNever = ~uint32_t{0};
  std::vector<uint32_t> made, sent, received, waited;
};

// Records position `i` of `rank` for the message of a send, receive or wait; each may occur only once.
void place_message(const Schedule& schedule, int32_t rank, size_t i, Positions& positions) {
  const Action& action = list_of(schedule, rank)[i];
  const std::optional<Handover> message = message_of(schedule, rank, action);
  require_at(message.has_value(), schedule, rank, i, "no stage stands on the other side");
  require_at(!message->is_local(), schedule, rank, i,
             "both stages are on this rank: there is nothing to send");
  const auto tag = static_cast<size_t>(message->tag);
  auto& placed = is_send(action.op)      ? positions.sent
                 : is_receive(action.op) ? positions.received
                                         : positions.waited;
  require_at(placed[tag] == Positions::kNever, schedule, rank, i, "is there twice");
  placed[tag] = static_cast<uint32_t>(i);
  if (is_send(action.op)) {
    require_at(positions.made[tag] != Positions::kNever, schedule, rank, i, "sends what is not made yet");
  }
  if (is_wait_send(action.op)) {
    require_at(positions.sent[tag] != Positions::kNever, schedule, rank, i,
               "waits for a send that has not started");
  }
}

// One send after its producer, one receive before its consumer, one wait after its send. Returns the number
// of messages.
int64_t check_messages(const Schedule& schedule) {
  const bool has_waits = contains(schedule, is_wait_send);
  Positions positions(schedule.shape);
  int64_t messages = 0;
  const auto for_each = [&](auto visit) {
    for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
      for (size_t i = 0; i < list_of(schedule, rank).size(); ++i) visit(rank, i, list_of(schedule, rank)[i]);
    }
  };
  for_each([&](int32_t rank, size_t i, const Action& action) {
    switch (class_of(action.op)) {
      case OpClass::kCompute:
        if (const std::optional<Handover> output = output_of(schedule, rank, action)) {
          positions.made[static_cast<size_t>(output->tag)] = static_cast<uint32_t>(i);
        }
        break;
      case OpClass::kSend:
      case OpClass::kReceive:
      case OpClass::kWaitSend:
        place_message(schedule, rank, i, positions);
        break;
      case OpClass::kStepEnd:
      case OpClass::kSegment:
        break;
    }
  });
  for_each([&](int32_t rank, size_t i, const Action& action) {
    const std::optional<Handover> output = output_of(schedule, rank, action);
    if (output && !output->is_local()) {
      const auto tag = static_cast<size_t>(output->tag);
      require_at(positions.sent[tag] != Positions::kNever, schedule, rank, i,
                 "its result is never sent: ", to_string(send_action(*output)), " is missing");
      require_at(!has_waits || positions.waited[tag] != Positions::kNever, schedule, rank,
                 positions.sent[tag], "no one waits for this send: ", to_string(wait_action(*output)),
                 " is missing");
      ++messages;
    }
    const std::optional<Handover> input = input_of(schedule, rank, action);
    if (input && !input->is_local()) {
      require_at(positions.received[static_cast<size_t>(input->tag)] < i, schedule, rank, i, "needs ",
                 to_string(receive_action(*input)), " before it");
    }
  });
  return messages;
}

// Between two ranks, the receives come in the order of the sends, activations and gradients together.
void check_pair_orders(const Schedule& schedule) {
  struct Pair {
    std::vector<Handover> sent;
    size_t received = 0;
  };
  std::map<std::pair<int32_t, int32_t>, Pair> pairs;
  const auto pair_of = [&](const Handover& message) -> Pair& {
    return pairs[{message.from.rank, message.to.rank}];
  };
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    for (const Action& action : list_of(schedule, rank)) {
      if (!is_send(action.op)) continue;
      const Handover message = *message_of(schedule, rank, action);
      pair_of(message).sent.push_back(message);
    }
  }
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    for (size_t i = 0; i < list_of(schedule, rank).size(); ++i) {
      if (!is_receive(list_of(schedule, rank)[i].op)) continue;
      const Handover message = *message_of(schedule, rank, list_of(schedule, rank)[i]);
      Pair& pair = pair_of(message);
      const Handover& expected = pair.sent[pair.received++];
      require_at(expected == message, schedule, rank, i, "rank ", message.from.rank,
                 " sends in another order: ", to_string(receive_action(expected)), " must come first");
    }
  }
}

std::string_view reason(Op op, bool is_own_rank) {
  if (op == Op::kWaitReduceTied) return "needs the other tied stage's REDUCE_TIED";
  if (op == Op::kWaitNorm) return "needs the NORM of every rank";
  if (is_own_rank) return "needs what this same rank makes only later";
  return is_send(op) ? "blocks until its receive is posted" : "needs what has not been sent";
}

[[noreturn]] void reject_stuck(const Schedule& schedule, const Replay& replay) {
  const std::vector<std::vector<int32_t>> cycles = replay.cycles();
  require<InternalError>(!cycles.empty(), "schedule ", schedule.name, " is stuck without a cycle");
  // The cycle from its lowest rank on.
  std::vector<int32_t> cycle = cycles.front();
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    const Action& action = list_of(schedule, cycle[i])[replay.position(cycle[i])];
    text += i == 0 ? cat(location(schedule, cycle[i], replay.position(cycle[i])), ": deadlock: it ")
                   : cat("; rank ", cycle[i], ", position ", replay.position(cycle[i]), " (",
                         to_string(action), ") ");
    text += reason(action.op, cycle.size() == 1);
    if (cycle.size() > 1)
      text += cat(", so rank ", cycle[i], " waits for rank ", *replay.blocked_on(cycle[i]));
  }
  if (cycle.size() > kShown) text += cat("; and ", cycle.size() - kShown, " more ranks in the same cycle");
  throw ConfigError(text);
}

// Runs all lists together; without messages, a stage's output is available to its neighbour as soon as it is
// computed.
void check_progress(const Schedule& schedule, bool with_messages) {
  std::vector<size_t> lengths;
  for (const std::vector<Action>& list : schedule.ranks) lengths.push_back(list.size());
  Replay replay(std::move(lengths));
  std::vector<char> is_available(static_cast<size_t>(handover_count(schedule.shape)));
  std::vector<char> is_posted(is_available.size());
  const Durations no_time;
  StepEndClock<Seconds> step_end(schedule, no_time);
  replay.run([&](int32_t rank, size_t position) -> std::optional<int32_t> {
    const Action& action = list_of(schedule, rank)[position];
    switch (class_of(action.op)) {
      case OpClass::kCompute: {
        const std::optional<Handover> input = input_of(schedule, rank, action);
        if (input && !is_available[static_cast<size_t>(input->tag)]) return input->from.rank;
        const std::optional<Handover> output = output_of(schedule, rank, action);
        if (output && (!with_messages || output->is_local()))
          is_available[static_cast<size_t>(output->tag)] = true;
        return std::nullopt;
      }
      case OpClass::kSend: {
        const Handover message = *message_of(schedule, rank, action);
        if (!is_posted[static_cast<size_t>(message.tag)]) return message.to.rank;
        is_available[static_cast<size_t>(message.tag)] = true;
        return std::nullopt;
      }
      case OpClass::kReceive:
        is_posted[static_cast<size_t>(message_of(schedule, rank, action)->tag)] = true;
        return std::nullopt;
      case OpClass::kWaitSend:
        return std::nullopt;
      case OpClass::kStepEnd: {
        Seconds now{0};
        return step_end.try_action(rank, action, now);
      }
      case OpClass::kSegment:
        return std::nullopt;
    }
    return std::nullopt;
  });
  if (replay.first_stuck()) reject_stuck(schedule, replay);
}

int64_t crossings(const Schedule& schedule) {
  int64_t count = 0;
  for (int32_t stage = 0; stage + 1 < schedule.shape.stages(); ++stage) {
    const bool crosses = place_of(schedule, stage).rank != place_of(schedule, stage + 1).rank;
    count += crosses ? 2 * schedule.shape.microbatches : 0;
  }
  return count;
}

// The highest value that the running sum of `change(action)` reaches in each rank's list.
template <typename Change>
std::vector<int32_t> peaks(const Schedule& schedule, Change change) {
  std::vector<int32_t> result;
  for (const std::vector<Action>& list : schedule.ranks) {
    int32_t now = 0;
    int32_t peak = 0;
    for (const Action& action : list) {
      now += change(action);
      peak = std::max(peak, now);
    }
    result.push_back(peak);
  }
  return result;
}

}  // namespace

std::vector<int32_t> peak_live_activations(const Schedule& schedule) {
  return peaks(schedule, [](const Action& action) {
    if (!includes_first_segment(action)) return 0;
    return (action.op == Op::kForward ? 1 : 0) - (weight_action(action) ? 1 : 0);
  });
}

CheckReport check(const Schedule& schedule) {
  validate(schedule);
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) check_compute(schedule, rank);
  check_step_end(schedule);
  check_segments(schedule);
  const bool with_messages = has_messages(schedule) || contains(schedule, is_wait_send);
  CheckReport report = {.messages = with_messages ? check_messages(schedule) : crossings(schedule)};
  if (with_messages) check_pair_orders(schedule);
  check_progress(schedule, with_messages);
  report.peak_live_activations = peak_live_activations(schedule);
  report.peak_outstanding_sends = peaks(schedule, [](const Action& action) {
    return is_send(action.op) ? 1 : is_wait_send(action.op) ? -1 : 0;
  });
  return report;
}

}  // namespace braid::schedule
