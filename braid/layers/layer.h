// A layer consists of three methods: forward (F), gradient of the input (B), gradient of the weights (W).
//
// Zero-bubble schedules separate B and W; the others run B and then W, layer by layer. In both cases a layer
// computes the same numbers. Source of the split: Qi et al. 2023, "Zero bubble pipeline parallelism",
// arXiv:2401.10241, section 2.
//
// Shapes in this folder: b sequences, s tokens each, T = b * s rows, H hidden size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "braid/tensor/parameter.h"

namespace braid::layers {

/// What a layer keeps for one microbatch, from F to B and from B to W. Each layer has its own type.
class Saved {
 public:
  virtual ~Saved() = default;

  /// The tensors held now, including undefined ones.
  virtual std::vector<const at::Tensor*> tensors() const = 0;

  /// Bytes held now; storage shared by several tensors counts once.
  int64_t bytes() const;
  bool empty() const { return bytes() == 0; }

  /// The result of F or B between the two parts of it, of a layer that does all of it in the first.
  at::Tensor result;
};

class LossLayer;

class Layer {
 public:
  virtual ~Layer() = default;

  /// An empty record for one microbatch.
  virtual std::unique_ptr<Saved> make_saved() const = 0;

  /// F. Returns y [b, s, H'] for x [b, s, H] (token ids [b, s] int64 for the embedding). Keeps in `saved`
  /// what B and W need; without `saved` (evaluation, generation) it keeps nothing. The caller must not modify
  /// x while `saved` holds it.
  virtual at::Tensor forward(const at::Tensor& x, Saved* saved) = 0;

  /// F in two parts, for work in between: the first ends where F would wait for other ranks of the
  /// tensor-parallel (mp) group, the second waits for them and returns y. Any work of this rank may come in
  /// between, even W of another microbatch of this layer. The same bits as forward. By default the first does
  /// all of F.
  virtual void begin_forward(const at::Tensor& x, Saved& saved);
  virtual at::Tensor end_forward(Saved& saved);

  /// F again, in B, for the record alone: leaves `saved` as forward(x, &saved) does. A layer overrides it
  /// where the record needs less than y.
  virtual void recompute(const at::Tensor& x, Saved& saved);

  /// B. Returns dx [b, s, H], the gradient of the loss with respect to x, for dy [b, s, H'] (undefined for
  /// the embedding, whose input has none). Drops from `saved` what only B needed and keeps what W needs. May
  /// keep dy, which the caller must not modify until W.
  virtual at::Tensor backward_input(const at::Tensor& dy, Saved& saved) = 0;

  /// B in two parts, like F; W of this microbatch may not come in between.
  virtual void begin_backward_input(const at::Tensor& dy, Saved& saved);
  virtual at::Tensor end_backward_input(Saved& saved);

  /// W. Adds the weight gradients of this microbatch to the parameters' main_grad (overwrites them for the
  /// first microbatch of a step, see Parameter::gradient_started) and leaves `saved` empty. Call it in
  /// ascending order of microbatches: this makes the sums bit-identical under every schedule.
  virtual void backward_weight(Saved& saved) = 0;

  /// Starts what W of this microbatch needs from other ranks of the mp group, so that it arrives during the
  /// work between this call and backward_weight. By default, and where W needs nothing, there is nothing to
  /// start.
  virtual void begin_backward_weight(Saved& /*saved*/) {}

  /// B and W, for schedules that do not split them: what only W needs lives only while this layer runs. By
  /// default one after the other; a layer of an mp group computes weight gradients while the group sums dx.
  /// The same bits as B and then W.
  virtual at::Tensor backward(const at::Tensor& dy, Saved& saved);

  /// Appends the layer's parameters, in a fixed order. They live as long as the layer.
  virtual void append_parameters(std::vector<tensor::Parameter*>& parameters) = 0;

  /// This layer if it ends a model with a loss, else null.
  virtual LossLayer* as_loss_layer() { return nullptr; }
};

struct Loss {
  double sum = 0;      ///< of the counted tokens' losses, in nats
  int64_t tokens = 0;  ///< number of counted tokens
  bool operator==(const Loss&) const = default;
};

/// The last layer of a model: its output is the loss. `forward` returns predictions, for generation, and
/// keeps nothing.
class LossLayer : public Layer {
 public:
  /// F of training and evaluation: the loss of x [b, s, H] against labels [b, s] int64 (-100: not counted).
  /// With `saved`, B and W compute the gradient of `gradient_scale` times the loss sum: pass 1 / (tokens of
  /// the whole step) to train on the mean. Without it, keeps nothing. In B `dy` is undefined: the loss is the
  /// last value.
  virtual Loss loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale, Saved* saved) = 0;

  LossLayer* as_loss_layer() final { return this; }
};

/// The parameters of a layer, or of `layers` in order.
std::vector<tensor::Parameter*> parameters_of(Layer& layer);
std::vector<tensor::Parameter*> parameters_of(std::span<const std::unique_ptr<Layer>> layers);

}  // namespace braid::layers
