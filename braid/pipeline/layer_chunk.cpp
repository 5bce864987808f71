#include "braid/pipeline/layer_chunk.h"

#include <ATen/ATen.h>

#include <utility>

#include "braid/base/error.h"

namespace braid::pipeline {

/// W of a piece, layer by layer.
class LayerChunk::WeightSteps {
 public:
  /// Of nothing, if `weight` is none.
  WeightSteps(const WeightInHand& weight, int32_t segment)
      : chunk_(dynamic_cast<LayerChunk*>(weight.chunk)),
        piece_({.microbatch = weight.microbatch, .segment = segment}) {
    require<InternalError>((chunk_ == nullptr) == (weight.chunk == nullptr),
                           "a W in hand is of another kind of chunk");
    if (chunk_ == nullptr) return;
    saved_ = &chunk_->saved_of(weight.microbatch);
    range_ = chunk_->layers_of(piece_);
  }

  bool exist() const { return chunk_ != nullptr; }

  /// Starts what W of the next layer needs from other ranks.
  void begin_next() {
    if (range_.end == range_.begin) return;
    next_layer().begin_backward_weight(*saved_->at(static_cast<size_t>(range_.end - 1)));
  }

  void run_next() {
    if (range_.end == range_.begin) return;
    next_layer().backward_weight(*saved_->at(static_cast<size_t>(range_.end - 1)));
    --range_.end;
  }

  void finish() {
    if (chunk_ == nullptr) return;
    while (range_.end > range_.begin) run_next();
    if (range_.begin == 0) chunk_->saved_.erase(piece_.microbatch);
  }

 private:
  layers::Layer& next_layer() const { return *chunk_->layers_[static_cast<size_t>(range_.end - 1)]; }

  LayerChunk* chunk_;
  Piece piece_;
  SavedLayers* saved_ = nullptr;
  tensor::Range range_{};  // the layers that are left
};

LayerChunk::LayerChunk(std::span<const std::unique_ptr<layers::Layer>> layers,
                       std::vector<tensor::Range> segments)
    : layers_(layers),
      segments_(std::move(segments)),
      loss_(layers.empty() ? nullptr : layers.back()->as_loss_layer()) {
  int64_t end = 0;
  for (const tensor::Range& segment : segments_) {
    require<InternalError>(segment.begin == end, "segments must follow one another");
    end = segment.end;
  }
  require<InternalError>(end == std::ssize(layers_), "segments cover ", end, " of ", layers_.size(),
                         " layers");
}

tensor::Range LayerChunk::layers_of(Piece piece) const {
  if (piece.segment == schedule::kAllSegments) return {0, std::ssize(layers_)};
  return segments_.at(static_cast<size_t>(piece.segment));
}

at::Tensor LayerChunk::take_passing(int32_t microbatch) {
  auto passing = passing_.extract(microbatch);
  require<InternalError>(!passing.empty(), "microbatch ", microbatch, " comes to a segment before its time");
  return std::move(passing.mapped());
}

at::Tensor LayerChunk::pass_on(Piece piece, bool is_last, at::Tensor result) {
  if (is_last) return result;
  passing_.emplace(piece.microbatch, std::move(result));
  return {};
}

at::Tensor LayerChunk::forward(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                               double gradient_scale, layers::Loss& loss) {
  const tensor::Range range = layers_of(piece);
  SavedLayers& saved = saved_[piece.microbatch];
  require<InternalError>(std::ssize(saved) == range.begin, "microbatch ", piece.microbatch,
                         " has a second forward while it is in flight");
  WeightSteps weights(piece.weight, piece.segment);
  at::Tensor activation = range.begin == 0 ? x : take_passing(piece.microbatch);
  for (int64_t i = range.begin; i < range.end; ++i) {
    layers::Layer& layer = *layers_[static_cast<size_t>(i)];
    saved.push_back(layer.make_saved());
    if (&layer == loss_) {
      loss = loss_->loss(activation, labels, gradient_scale, saved.back().get());
      weights.finish();
      return {};
    }
    if (!weights.exist()) {
      activation = layer.forward(activation, saved.back().get());
      continue;
    }
    weights.begin_next();
    layer.begin_forward(activation, *saved.back());
    weights.run_next();
    activation = layer.end_forward(*saved.back());
  }
  weights.finish();
  return pass_on(piece, range.end == std::ssize(layers_), std::move(activation));
}

at::Tensor LayerChunk::evaluate(Piece piece, const at::Tensor& x, const at::Tensor& labels,
                                layers::Loss& loss) {
  const tensor::Range range = layers_of(piece);
  at::Tensor activation = range.begin == 0 ? x : take_passing(piece.microbatch);
  for (int64_t i = range.begin; i < range.end; ++i) {
    layers::Layer& layer = *layers_[static_cast<size_t>(i)];
    if (&layer == loss_) {
      loss = loss_->loss(activation, labels, 0.0, nullptr);
      return {};
    }
    activation = layer.forward(activation, nullptr);
  }
  return pass_on(piece, range.end == std::ssize(layers_), std::move(activation));
}

at::Tensor LayerChunk::backward_input(Piece piece, at::Tensor dy) {
  const tensor::Range range = layers_of(piece);
  SavedLayers& saved = saved_of(piece.microbatch);
  if (range.end < std::ssize(layers_)) dy = take_passing(piece.microbatch);
  WeightSteps weights(piece.weight, piece.segment);
  for (int64_t i = range.end; i-- > range.begin;) {
    layers::Layer& layer = *layers_[static_cast<size_t>(i)];
    layers::Saved& kept = *saved[static_cast<size_t>(i)];
    if (!weights.exist()) {
      dy = layer.backward_input(dy, kept);
      continue;
    }
    weights.begin_next();
    layer.begin_backward_input(dy, kept);
    weights.run_next();
    dy = layer.end_backward_input(kept);
  }
  weights.finish();
  return pass_on(piece, range.begin == 0, std::move(dy));
}

void LayerChunk::backward_weight(Piece piece) {
  const tensor::Range range = layers_of(piece);
  SavedLayers& saved = saved_of(piece.microbatch);
  for (int64_t i = range.end; i-- > range.begin;) {
    layers_[static_cast<size_t>(i)]->backward_weight(*saved[static_cast<size_t>(i)]);
  }
  if (range.begin == 0) saved_.erase(piece.microbatch);
}

at::Tensor LayerChunk::backward(Piece piece, at::Tensor dy) {
  const tensor::Range range = layers_of(piece);
  SavedLayers& saved = saved_of(piece.microbatch);
  if (range.end < std::ssize(layers_)) dy = take_passing(piece.microbatch);
  for (int64_t i = range.end; i-- > range.begin;) {
    dy = layers_[static_cast<size_t>(i)]->backward(dy, *saved[static_cast<size_t>(i)]);
    saved[static_cast<size_t>(i)].reset();
  }
  if (range.begin == 0) saved_.erase(piece.microbatch);
  return pass_on(piece, range.begin == 0, std::move(dy));
}

int64_t LayerChunk::saved_bytes() const {
  int64_t sum = 0;
  for (const auto& [id, saved] : saved_) {
    for (const auto& layer : saved) sum += layer ? layer->bytes() : 0;
  }
  return sum;
}

LayerChunk::SavedLayers& LayerChunk::saved_of(int32_t microbatch) {
  const auto found = saved_.find(microbatch);
  require<InternalError>(found != saved_.end(), "microbatch ", microbatch,
                         " has a backward without a forward");
  return found->second;
}

}  // namespace braid::pipeline
