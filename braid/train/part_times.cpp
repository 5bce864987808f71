#include "braid/train/part_times.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "braid/base/median.h"
#include "braid/model/initialise.h"
#include "braid/pipeline/layer_chunk.h"
#include "braid/train/rank_model.h"

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

/// F, B and W of a layer. `is_first`: its input is the microbatch.
StageTimes time_layer(const layers::LayerSpec& spec, bool is_first, const pipeline::Microbatch& microbatch,
                      const pipeline::ActivationSpec& activation, const layers::Placement& place) {
  const c10::Device device = activation.options.device();
  const std::span<const layers::LayerSpec> stage(&spec, 1);
  const RankModel model =
      make_rank_model(std::span(&stage, 1), {}, place, c10::typeMetaToScalarType(activation.options.dtype()));
  model::initialise(model.parameters(), {});
  pipeline::LayerChunk chunk(model.stages.front().layers, model.stages.front().groups);
  const bool is_loss = model.stages.front().layers.back()->as_loss_layer() != nullptr;
  const auto hidden = [&] {
    return at::ones({activation.sequences, activation.sequence_tokens, activation.hidden},
                    activation.options);
  };
  std::vector<double> forward, backward_input, backward_weight;
  for (int i = 0; i <= kRepeats; ++i) {
    const at::Tensor x = is_first ? microbatch.tokens : hidden();
    at::Tensor dy = is_loss ? at::Tensor() : hidden();
    layers::Loss loss;
    const double f = time_of(device, [&] { chunk.forward({}, x, microbatch.labels, 1.0, loss); });
    const double b = time_of(device, [&] { chunk.backward_input({}, std::move(dy)); });
    const double w = time_of(device, [&] { chunk.backward_weight({}); });
    if (i == 0) continue;
    forward.push_back(f);
    backward_input.push_back(b);
    backward_weight.push_back(w);
  }
  return {.forward = Seconds(median(forward)),
          .backward_input = Seconds(median(backward_input)),
          .backward_weight = Seconds(median(backward_weight))};
}

/// Half of what it takes to send an activation around and know that it arrived: an upper bound of a message's
/// time.
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

PartTimes measure_parts(std::span<const layers::LayerSpec> layers, const pipeline::Microbatch& microbatch,
                        const pipeline::ActivationSpec& activation, const layers::Placement& place,
                        comm::Communicator& world) {
  const at::NoGradGuard no_grad;
  PartTimes times;
  for (const layers::LayerSpec& layer : layers) {
    if (times.kinds.contains(layer.kind)) continue;
    times.kinds[layer.kind] = time_layer(layer, &layer == &layers.front(), microbatch, activation, place);
  }
  times.communication = Seconds(time_message(activation, world));
  std::vector<Seconds*> all = {&times.communication};
  for (auto& [kind, of_kind] : times.kinds) {
    all.insert(all.end(), {&of_kind.forward, &of_kind.backward_input, &of_kind.backward_weight});
  }
  at::Tensor mine = at::empty({std::ssize(all)}, at::kDouble);
  for (size_t i = 0; i < all.size(); ++i) mine.mutable_data_ptr<double>()[i] = all[i]->count();
  const at::Tensor gathered = world.all_gather(mine.to(activation.options.device())).wait().cpu();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<double> of_ranks;
    for (const at::Tensor& values : gathered.unbind()) of_ranks.push_back(values.const_data_ptr<double>()[i]);
    *all[i] = Seconds(median(of_ranks));
  }
  return times;
}

}  // namespace braid::train
