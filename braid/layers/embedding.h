// Token embedding: the row of a table for each token.
#pragma once

#include "braid/layers/layer.h"

namespace braid::layers {

/// The tokens from F to W, dy from B to W.
class EmbeddingSaved final : public Saved {
 public:
  std::vector<const at::Tensor*> tensors() const override { return {&tokens, &dy}; }
  at::Tensor tokens;  ///< [b, s] int64
  at::Tensor dy;      ///< [b, s, H]
};

class Embedding final : public Layer {
 public:
  struct Options {
    std::string name = "model.embed_tokens.weight";
    int64_t vocabulary = 0;  ///< V
    int64_t hidden = 0;      ///< H
  };
  explicit Embedding(const Options& options);

  std::unique_ptr<Saved> make_saved() const override { return std::make_unique<EmbeddingSaved>(); }

  /// Returns [b, s, H] for tokens [b, s] int64. Throws DataError for a token outside the vocabulary.
  at::Tensor forward(const at::Tensor& tokens, Saved* saved) override;

  /// Returns an undefined tensor: token ids have no gradient.
  at::Tensor backward_input(const at::Tensor& dy, Saved& saved) override;
  void backward_weight(Saved& saved) override;
  void append_parameters(std::vector<tensor::Parameter*>& parameters) override {
    parameters.push_back(&weight_);
  }

 private:
  tensor::Parameter weight_;
};

}  // namespace braid::layers
