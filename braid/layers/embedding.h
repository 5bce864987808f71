// Token embedding: the row of a table for each token.
//
// A rank of an mp group has the rows of its part of the vocabulary: it computes zeros for all other tokens,
// and the group sums. With sequence parallelism (placement.h) each rank gets its rows of the sum, and gathers
// dy in W.
#pragma once

#include "braid/layers/layer.h"
#include "braid/layers/mp_group.h"

namespace braid::layers {

/// The tokens from F to W, dy from B to W.
class EmbeddingSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&tokens, &dy}; }
  at::Tensor tokens;  ///< [b, s] int64
  at::Tensor dy;      ///< [b, s, H], this rank's rows
};

class Embedding final : public Layer {
 public:
  struct Options {
    std::string name = "model.embed_tokens.weight";
    int64_t vocabulary = 0;  ///< V
    int64_t hidden = 0;      ///< H
    Placement place = {};
  };
  /// Throws ConfigError if the vocabulary is too small for the mp group.
  explicit Embedding(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<EmbeddingSaved>(); }

  /// Returns [b, s, H] for tokens [b, s] int64, this rank's rows. Throws DataError for a token outside the
  /// vocabulary (on the CPU; a GPU's own check ends the kernel), ShapeError if the mp group cannot cut the
  /// sequence.
  at::Tensor forward(const at::Tensor& tokens, Saved* saved) override;

  /// Returns an undefined tensor: token ids have no gradient.
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters.push_back(&weight_);
  }

 private:
  at::Tensor partial_rows(const at::Tensor& tokens_T) const;

  MpGroup mp_;
  int64_t vocabulary_;
  int64_t begin_;  // of this rank's token ids
  tensor::Parameter weight_;
};

}  // namespace braid::layers
