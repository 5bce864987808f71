#include "braid/pipeline/emulation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <thread>

#include "braid/base/error.h"

namespace braid::pipeline {
namespace {

using TimePoint = EmulatedClock::TimePoint;
using schedule::Seconds;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

}  // namespace

void EmulatedClock::restart() {
  now_ = Clock::now();
  first_.reset();
  delays_ = Seconds(0);
  noise_ = Seconds(0);
}

TimePoint EmulatedClock::honest(TimePoint due, Seconds action) {
  const TimePoint present = Clock::now();
  const Seconds late = present - due;
  if (late <= grace_ * action) {
    noise_ = std::max(noise_, late);
    return due;
  }
  delays_ += late;
  return present;
}

TimePoint EmulatedClock::run(Seconds duration, std::optional<TimePoint> input_due, Seconds action) {
  // An action that waits for nothing is late only if the previous one was, which has accounted for it.
  const TimePoint begin = honest(std::max(now_, input_due.value_or(now_)), action);
  if (!first_) first_ = begin;
  std::this_thread::sleep_until(begin + duration);
  now_ = honest(begin + duration, action);
  return now_;
}

at::Tensor EmulatedChunk::made(TimePoint time) const {
  at::Tensor output = at::zeros({1, 1, options_.hand_over_numel}, at::kDouble);
  output.mutable_data_ptr<double>()[0] = time.time_since_epoch().count();
  return output;
}

std::optional<TimePoint> EmulatedChunk::due(const at::Tensor& input, Seconds delay) const {
  return TimePoint(Seconds(input.const_data_ptr<double>()[0])) + delay;
}

at::Tensor EmulatedChunk::take_saved(int32_t id) {
  auto saved = saved_.extract(id);
  require<InternalError>(!saved.empty(), "microbatch ", id, " has a backward without a forward");
  return std::move(saved.mapped());
}

TimePoint EmulatedChunk::run(Seconds time, Seconds exchange, std::optional<TimePoint> input_due,
                             const WeightInHand& weight) {
  if (weight.chunk == nullptr) return clock_.run(time, input_due);
  const TimePoint begun = clock_.run(time - exchange, input_due, time);
  weight.chunk->backward_weight({.microbatch = weight.microbatch});
  return clock_.run(Seconds(0), begun + exchange, time);
}

at::Tensor EmulatedChunk::forward(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                                  double /*gradient_scale*/, layers::Loss& loss) {
  at::Tensor kept = bytes(options_.memory_bytes.forward_to_backward);
  at::Tensor output = evaluate(piece, x, labels, loss);
  const bool is_new = saved_.emplace(piece.microbatch, std::move(kept)).second;
  require<InternalError>(is_new, "microbatch ", piece.microbatch,
                         " has a second forward while it is in flight");
  return output;
}

at::Tensor EmulatedChunk::evaluate(Piece piece, const at::Tensor& x, const at::Tensor& /*labels*/,
                                   layers::Loss& loss) {
  require<InternalError>(piece.segment == schedule::kAllSegments, "an emulated chunk has no segments");
  const std::optional<TimePoint> input_due = options_.is_first ? std::nullopt : due(x, options_.input_delay);
  const TimePoint end = run(options_.times.forward, options_.times.forward_exchange, input_due, piece.weight);
  if (!options_.is_last) return made(end);
  loss = {.sum = 0.0, .tokens = 1};
  return {};
}

at::Tensor EmulatedChunk::backward_input(Piece piece, at::Tensor dy) {
  const std::optional<TimePoint> input_due =
      options_.is_last ? std::nullopt : due(dy, options_.gradient_delay);
  at::Tensor kept = take_saved(piece.microbatch);
  const TimePoint end =
      run(options_.times.backward_input, options_.times.backward_exchange, input_due, piece.weight);
  kept.reset();
  saved_.emplace(piece.microbatch, bytes(options_.memory_bytes.backward_to_weight));
  return options_.is_first ? at::Tensor() : made(end);
}

void EmulatedChunk::backward_weight(Piece piece) {
  const at::Tensor kept = take_saved(piece.microbatch);
  clock_.run(options_.times.backward_weight, std::nullopt);
}

at::Tensor EmulatedChunk::backward(Piece piece, at::Tensor dy) {
  const std::optional<TimePoint> input_due =
      options_.is_last ? std::nullopt : due(dy, options_.gradient_delay);
  const at::Tensor kept = take_saved(piece.microbatch);
  const TimePoint end = clock_.run(options_.times.backward(), input_due);
  return options_.is_first ? at::Tensor() : made(end);
}

int64_t EmulatedChunk::saved_bytes() const {
  int64_t sum = 0;
  for (const auto& [id, kept] : saved_) sum += static_cast<int64_t>(kept.nbytes());
  return sum;
}

}  // namespace braid::pipeline
