#include "braid/pipeline/executor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <optional>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"

namespace braid::pipeline {
namespace {

using schedule::Action;
using schedule::Handover;
using schedule::Op;
using Clock = std::chrono::steady_clock;

comm::MessageKind kind_of(schedule::Payload payload) {
  return payload == schedule::Payload::kActivation ? comm::MessageKind::kActivation
                                                   : comm::MessageKind::kGradient;
}

std::string describe(const Action& action) { return schedule::to_string(action); }

}  // namespace

Executor::Executor(Options options) : options_(std::move(options)) {
  const auto& shape = options_.schedule.shape;
  require<InternalError>(0 <= options_.rank && options_.rank < shape.ranks, "rank ", options_.rank,
                         " does not exist in a pipeline of ", shape.ranks);
  require<InternalError>(static_cast<int32_t>(options_.chunks.size()) == shape.chunks_per_rank, "got ",
                         counted(static_cast<int64_t>(options_.chunks.size()), "chunk"),
                         " for a schedule of ", shape.chunks_per_rank, " per rank");
  require<InternalError>(options_.link != nullptr || shape.ranks == 1, "a pipeline of ", shape.ranks,
                         " ranks needs a link");
  require<InternalError>(options_.segments != nullptr || !options_.schedule.data.is_on(),
                         "a schedule with data axes needs what moves their segments");
}

std::vector<layers::Loss> Executor::run(const StepInput& input, const ActivationSpec& activation) {
  return walk(Mode::kTrain, input, activation);
}

std::vector<layers::Loss> Executor::evaluate(const StepInput& input, const ActivationSpec& activation) {
  return walk(Mode::kEvaluate, input, activation);
}

std::vector<layers::Loss> Executor::walk(Mode mode, const StepInput& input,
                                         const ActivationSpec& activation) {
  const auto microbatches = static_cast<size_t>(options_.schedule.shape.microbatches);
  require<InternalError>(
      input.microbatches.size() == microbatches, "got ",
      counted(static_cast<int64_t>(input.microbatches.size()), "microbatch", "microbatches"),
      " for a schedule of ", microbatches);
  const at::NoGradGuard no_grad;
  std::vector<layers::Loss> losses(microbatches);
  for (const Action& action : options_.schedule.ranks[static_cast<size_t>(options_.rank)]) {
    if (is_step_end(action.op) && options_.step_end == nullptr) continue;
    if (observer_ != nullptr) observer_->before(action);
    const auto begin = Clock::now();
    ready_ = begin;
    perform(action, mode, input, activation, losses);
    if (observer_ != nullptr)
      observer_->after(action, {.begin = begin, .ready = ready_, .end = Clock::now()});
  }
  require<InternalError>(incoming_.empty() && outgoing_.empty() && sends_.empty(), "the schedule left ",
                         incoming_.size(), " received tensors unused, ", outgoing_.size(),
                         " outputs unsent and ", sends_.size(), " sends unfinished");
  return losses;
}

void Executor::perform(const Action& action, Mode mode, const StepInput& input,
                       const ActivationSpec& activation, std::vector<layers::Loss>& losses) {
  switch (action.op) {
    case Op::kRecvForward:
    case Op::kRecvBackward:
      post_receive(action, activation);
      break;
    case Op::kSendForward:
    case Op::kSendBackward:
      start_send(action);
      break;
    case Op::kWaitSendForward:
    case Op::kWaitSendBackward:
      end_send(action);
      break;
    case Op::kForward:
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      compute(action, mode, input, activation, losses);
      break;
    case Op::kReduceTied:
    case Op::kWaitReduceTied:
    case Op::kNorm:
    case Op::kWaitNorm:
    case Op::kUpdate:
      end_step(action, losses);
      break;
    case Op::kGather:
    case Op::kWaitGather:
    case Op::kRelease:
    case Op::kReduce:
    case Op::kWaitReduce:
    case Op::kReduceDp:
    case Op::kWaitReduceDp:
      options_.segments->perform(action);
      break;
  }
}

void Executor::compute(const Action& action, Mode mode, const StepInput& input,
                       const ActivationSpec& activation, std::vector<layers::Loss>& losses) {
  Chunk& chunk = *options_.chunks[static_cast<size_t>(action.chunk)];
  Piece piece = {.microbatch = action.microbatch, .segment = action.segment};
  if (action.weight.exists()) {
    piece.weight = {.chunk = options_.chunks[static_cast<size_t>(action.weight.chunk)],
                    .microbatch = action.weight.microbatch};
  }
  const auto id = static_cast<size_t>(action.microbatch);
  const Microbatch& data = input.microbatches[id];
  const std::optional<Action> weight = weight_action(action);
  if (options_.segments != nullptr && weight) {
    options_.segments->prepare_gradients(weight->chunk, weight->segment);
  }
  at::Tensor incoming = take_input(action);
  if (action.op == Op::kForward) {
    const at::Tensor& x = incoming.defined() ? incoming : data.tokens;
    layers::Loss& loss = losses[id];
    put_output(action,
               mode == Mode::kTrain ? chunk.forward(piece, x, data.labels, input.gradient_scale, loss)
                                    : chunk.evaluate(piece, x, data.labels, loss),
               activation);
  } else if (action.op == Op::kBackward) {
    put_output(action, chunk.backward(piece, std::move(incoming)), activation);
  } else if (action.op == Op::kBackwardInput) {
    put_output(action, chunk.backward_input(piece, std::move(incoming)), activation);
  } else {
    chunk.backward_weight(piece);
  }
}

void Executor::end_step(const Action& action, std::span<const layers::Loss> losses) {
  StepEnd& end = *options_.step_end;
  if (action.op == Op::kReduceTied) {
    end.reduce_tied(action.chunk);
  } else if (action.op == Op::kWaitReduceTied) {
    end.wait_reduce_tied(action.chunk);
  } else if (action.op == Op::kNorm) {
    end.norm(losses);
  } else if (action.op == Op::kWaitNorm) {
    end.wait_norm();
  } else {
    end.update(action.chunk, action.segment);
  }
}

void Executor::post_receive(const Action& action, const ActivationSpec& activation) {
  const auto message = schedule::message_of(options_.schedule, options_.rank, action);
  require<InternalError>(message.has_value(), describe(action), " has no sender");
  at::Tensor tensor =
      at::empty({activation.sequences, activation.sequence_tokens, activation.hidden}, activation.options);
  comm::Pending pending =
      options_.link->receive(tensor, message->from.rank, kind_of(message->payload), message->tag);
  incoming_.emplace(message->tag, Incoming{std::move(tensor), std::move(pending), action});
}

void Executor::start_send(const Action& action) {
  const auto message = schedule::message_of(options_.schedule, options_.rank, action);
  require<InternalError>(message.has_value(), describe(action), " has no receiver");
  auto output = outgoing_.extract(message->tag);
  require<InternalError>(!output.empty(), describe(action), " precedes the computation of its tensor");
  sends_.emplace(message->tag, options_.link->send(std::move(output.mapped()), message->to.rank,
                                                   kind_of(message->payload), message->tag));
}

void Executor::end_send(const Action& action) {
  const auto message = schedule::message_of(options_.schedule, options_.rank, action);
  require<InternalError>(message.has_value(), describe(action), " has no send");
  auto send = sends_.extract(message->tag);
  require<InternalError>(!send.empty(), describe(action), " precedes its send");
  send.mapped().wait([&] { return describe(action); });
}

at::Tensor Executor::take_input(const Action& action) {
  const auto message = schedule::input_of(options_.schedule, options_.rank, action);
  if (!message) return {};
  auto slot = incoming_.extract(message->tag);
  require<InternalError>(!slot.empty(), describe(action), " precedes the receipt of its input");
  Incoming& incoming = slot.mapped();
  if (!message->is_local()) incoming.pending.wait([&] { return describe(incoming.posted_by); });
  ready_ = Clock::now();
  return std::move(incoming.tensor);
}

void Executor::put_output(const Action& action, at::Tensor output, const ActivationSpec& activation) {
  const auto message = schedule::output_of(options_.schedule, options_.rank, action);
  if (!message) return;
  // Messages are matched by their number of elements: another shape would arrive as this one.
  const std::array<int64_t, 3> sizes = {activation.sequences, activation.sequence_tokens, activation.hidden};
  require<ShapeError>(output.defined() && output.sizes() == at::IntArrayRef(sizes) &&
                          output.dtype() == activation.options.dtype(),
                      describe(action), " made ",
                      output.defined() ? cat(output.sizes(), " of ", output.dtype()) : "no tensor",
                      ", but stages hand on ", at::IntArrayRef(sizes), " of ", activation.options.dtype());
  output = output.contiguous();
  if (message->is_local()) {
    incoming_.emplace(message->tag, Incoming{std::move(output), {}, action});
  } else {
    outgoing_.emplace(message->tag, std::move(output));
  }
}

}  // namespace braid::pipeline
