#include "braid/train/part_times.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "braid/base/median.h"
#include "braid/model/llama.h"
#include "braid/pipeline/layer_chunk.h"

namespace braid::train {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::Seconds;
using schedule::StageTimes;

constexpr int kRepeats = 5;  // after one to warm up

/// Seconds of one call of `work`, the device idle before and after.
template <typename Work>
double time_of(c10::Device device, Work&& work) {
  if (device.is_cuda()) at::zeros({1}, device).item<float>();
  const auto begin = Clock::now();
  work();
  if (device.is_cuda()) at::zeros({1}, device).item<float>();
  return Seconds(Clock::now() - begin).count();
}

/// F, B and W of the part of the model that `range` is.
StageTimes time_part(const config::ModelConfig& model, const model::StageRange& range,
                     const pipeline::ActivationSpec& activation) {
  const c10::Device device = activation.options.device();
  const model::Stage stage = model::make_stage(model, range, activation.options);
  model::initialise(stage.parameters(), model, 0);
  pipeline::LayerChunk chunk(stage.layers, stage.head);
  const at::Tensor tokens = at::randint(model.vocab_size, {activation.sequences, activation.sequence_tokens},
                                        at::TensorOptions(device).dtype(at::kLong));
  const auto hidden = [&] {
    return at::ones({activation.sequences, activation.sequence_tokens, activation.hidden},
                    activation.options);
  };
  std::vector<double> forward, backward_input, backward_weight;
  for (int i = 0; i <= kRepeats; ++i) {
    const at::Tensor x = range.has_embedding ? tokens : hidden();
    at::Tensor dy = range.has_head ? at::Tensor() : hidden();
    layers::Loss loss;
    const double f = time_of(device, [&] { chunk.forward(0, x, tokens, 1.0, loss); });
    const double b = time_of(device, [&] { chunk.backward_input(0, std::move(dy)); });
    const double w = time_of(device, [&] { chunk.backward_weight(0); });
    if (i == 0) continue;
    forward.push_back(f);
    backward_input.push_back(b);
    backward_weight.push_back(w);
  }
  return {.forward = Seconds(median(forward)),
          .backward_input = Seconds(median(backward_input)),
          .backward_weight = Seconds(median(backward_weight))};
}

/// Half of what it takes to send an activation around and hear of it: an upper bound of a message's time.
double time_message(const pipeline::ActivationSpec& activation, comm::Communicator& pipeline) {
  if (pipeline.size() == 1) return 0;
  at::Tensor tensor =
      at::zeros({activation.sequences, activation.sequence_tokens, activation.hidden}, activation.options);
  std::vector<double> times;
  for (int i = 0; i <= kRepeats; ++i) {
    const double there_and_back = time_of(activation.options.device(), [&] {
      pipeline.broadcast(tensor, 0).wait();
      pipeline.broadcast(tensor, 1).wait();
    });
    if (i > 0) times.push_back(there_and_back / 2);
  }
  return median(times);
}

}  // namespace

PartTimes measure_parts(const config::ModelConfig& model, const pipeline::ActivationSpec& activation,
                        comm::Communicator& pipeline) {
  const at::NoGradGuard no_grad;
  PartTimes times = {
      .embedding = time_part(model, {.first_layer = 0, .end_layer = 0, .has_embedding = true}, activation),
      .layer = time_part(model, {.first_layer = 0, .end_layer = 1}, activation),
      .head = time_part(model, {.first_layer = 0, .end_layer = 0, .has_head = true}, activation),
      .communication = Seconds(time_message(activation, pipeline))};
  const std::array<Seconds*, 10> all = {
      &times.embedding.forward, &times.embedding.backward_input, &times.embedding.backward_weight,
      &times.layer.forward,     &times.layer.backward_input,     &times.layer.backward_weight,
      &times.head.forward,      &times.head.backward_input,      &times.head.backward_weight,
      &times.communication};
  at::Tensor mine = at::empty({std::ssize(all)}, at::kDouble);
  for (size_t i = 0; i < all.size(); ++i) mine.mutable_data_ptr<double>()[i] = all[i]->count();
  const at::Tensor gathered = pipeline.all_gather(mine.to(activation.options.device())).wait().cpu();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<double> of_ranks;
    for (const at::Tensor& values : gathered.unbind()) of_ranks.push_back(values.const_data_ptr<double>()[i]);
    *all[i] = Seconds(median(of_ranks));
  }
  return times;
}

}  // namespace braid::train
