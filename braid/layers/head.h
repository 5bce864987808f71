// The end of the model: final norm, projection to the vocabulary, cross-entropy.
//
// The logits of a microbatch are never entirely in memory: a few rows at a time they are computed, turned
// into their own gradient, used for the gradients of the norm's output and of the weight, and dropped. F thus
// does the work of B and W for the projection (see docs/decisions/0002-head-gradient-in-forward.md); B
// finishes the norm, W adds the norm's weight gradient.
//
// A rank of an mp group has the logits of its part of the vocabulary. For each block of rows the group
// exchanges three numbers per row (kernels/cross_entropy.h) while the next block's logits are computed; the
// gradient of the norm's output is summed once per microbatch, while the last block's weight gradient is
// computed. With sequence parallelism (placement.h) the norm's output is gathered and that sum is a
// reduce-scatter. All ranks have all labels and get the same loss, bit for bit.
#pragma once

#include "braid/layers/layer.h"
#include "braid/layers/linear.h"
#include "braid/layers/mp_group.h"
#include "braid/layers/rms_norm.h"

namespace braid::layers {

/// From F to B: the norm's, and the gradient of its output. From B to W: the norm's weight gradient.
class HeadSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override;
  RmsNormSaved norm;
  at::Tensor dnormed;  ///< [b, s, H], this rank's rows
};

class Head final : public LossLayer {
 public:
  struct Options {
    std::string norm_name = "model.norm.weight";
    std::string name = "lm_head.weight";  ///< the embedding's if the two are tied
    int64_t hidden = 0;                   ///< H
    int64_t vocabulary = 0;               ///< V
    double norm_eps = 1e-6;
    int64_t logits_bytes = int64_t{64} << 20;  ///< upper bound on the logits that a rank holds at a time
    Placement place = {};
  };
  /// Throws ConfigError if the vocabulary is too small for the mp group.
  explicit Head(const Options& options);

  /// How many of `rows` rows are a block: their logits, of elements of `element_bytes`, keep to logits_bytes
  /// if a single row does; a rank of an mp group holds those of two blocks. The same on all ranks of the
  /// group.
  static int64_t rows_per_block(const Options& options, int64_t rows, int64_t element_bytes);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<HeadSaved>(); }

  /// Logits [b, s, V] of x [b, s, H], for generation, complete on all ranks of an mp group. `saved` must be
  /// null: training goes through loss().
  at::Tensor forward(const at::Tensor& x, Saved* saved) override;

  /// See LossLayer::loss; labels are those of all rows. With `saved`, the projection's weight gradient is
  /// added to its main_grad immediately; the rest is kept in `saved` for B and W.
  Loss loss(const at::Tensor& x, const at::Tensor& labels, double gradient_scale, Saved* saved) override;

  /// B. `dy` is not used, as the loss is the last value; pass an undefined tensor.
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override;

 private:
  Loss loss_of_parts(const at::Tensor& x, const at::Tensor& targets_T, double gradient_scale,
                     HeadSaved* saved);

  Options options_;
  MpGroup mp_;
  RmsNorm norm_;
  Linear projection_;
};

}  // namespace braid::layers
