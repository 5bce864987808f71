// Layers of which F keeps nothing but their input: B computes them again. Source: Chen et al. 2016, "Training
// deep nets with sublinear memory cost", arXiv:1604.06174.
//
// A split backward recomputes once, at the beginning of B; from there on the layers' own records hold what W
// needs, as they do without recomputation. The same bits as without.
#pragma once

#include <memory>
#include <vector>

#include "braid/layers/layer.h"
#include "braid/layers/layer_spec.h"

namespace braid::layers {

/// From F to B: the input. From B to W: the records of the layers; also, between the two parts of F, that of
/// the last layer.
class RecomputedSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override;
  at::Tensor x;
  std::vector<std::unique_ptr<Saved>> layers;
};

class Recomputed final : public Layer {
 public:
  /// At least one, in order, none of them a loss.
  explicit Recomputed(std::vector<std::unique_ptr<Layer>> layers);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<RecomputedSaved>(); }
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;
  /// All but the wait of the last layer.
  void begin_forward(const at::Tensor& x, Saved& saved) override;
  at::Tensor end_forward(Saved& saved) override;
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  /// All but the wait of the first layer, whose B comes last.
  void begin_backward_input(const at::Tensor& dy, Saved& saved) override;
  at::Tensor end_backward_input(Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void begin_backward_weight(Saved& saved) override;  ///< of the last layer, whose W comes first
  at::Tensor backward(const at::Tensor& dy, Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override;

 private:
  void recompute_layers(RecomputedSaved& kept);

  std::vector<std::unique_ptr<Layer>> layers_;
};

/// The spec of Recomputed of `parts`: the parts' work and F's again, but for what only the last one's output
/// needs; their messages, likewise; and from F to B rows of `hidden` elements. Memory or messages that a part
/// does not state are not stated. Throws InternalError if there is no part.
LayerSpec recomputed_spec(std::vector<LayerSpec> parts, int64_t hidden);

}  // namespace braid::layers
