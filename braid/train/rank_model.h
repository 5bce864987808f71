// The part of a model that one rank holds: layers, and the memory of their parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/layers/layer_spec.h"
#include "braid/tensor/segment.h"

namespace braid::train {

/// One stage's layers, and the segments of its parameters.
struct StageModel {
  std::vector<std::unique_ptr<layers::Layer>> layers;
  std::vector<tensor::Range> groups;      ///< of layers: the schedule's segments
  std::vector<tensor::Segment> segments;  ///< one or more for each group
  std::vector<tensor::Segment>
      tied_segments;  ///< of parameters whose values another segment of this rank holds

  std::vector<tensor::Parameter*> parameters() const { return layers::parameters_of(layers); }
};

/// Two parameters on this rank that are one weight. `user` shares the value of `owner`, which comes first in
/// the model and is the one that is updated; each has a main gradient of its own.
struct LocalTie {
  tensor::Parameter* owner = nullptr;
  tensor::Parameter* user = nullptr;
};

struct RankModel {
  std::vector<StageModel> stages;  ///< by chunk, which is the order of their places in the model
  std::vector<LocalTie> local_ties;

  std::vector<tensor::Parameter*> parameters() const;
  bool is_user(const tensor::Parameter& parameter) const;

  /// The segment that holds `parameter` alone.
  tensor::Segment& segment_of(const tensor::Parameter& parameter);
};

/// A rank's part of the model before its parameters have memory.
struct RankLayout {
  struct Stage {
    std::vector<std::unique_ptr<layers::Layer>> layers;
    std::vector<tensor::SegmentLayout> segments;       ///< of the parameters but the users of local ties
    std::vector<tensor::SegmentLayout> tied_segments;  ///< of those

    std::vector<tensor::Range> groups() const;
  };
  std::vector<Stage> stages;
  std::vector<LocalTie> local_ties;
};

/// How a rank's parameters are laid out.
struct LayoutOptions {
  tensor::SegmentCut cut;
  int64_t parts = 1;  ///< see tensor::SegmentHolding
  std::string tied;  ///< the tensor that two layers of the model share, or empty: it has a segment of its own
  bool forward_gradients_apart = false;  ///< parameters whose gradient F makes have segments of their own
};

/// The layers of `stages`, each a range of a model's specs, made for `place`, and how their parameters will
/// lie in memory, values taking `element_bytes` an element.
RankLayout lay_out_rank(std::span<const std::span<const layers::LayerSpec>> stages,
                        const LayoutOptions& options, int64_t element_bytes, const layers::Placement& place);

/// The layers of `stages`, each a range of a model's specs, made for `place`, with undefined weights of
/// `dtype`, which `fill` gives their first values, segment by segment, as tensor::allocate_segments does.
/// Tied parameters of one rank share their value; only the first is filled.
RankModel make_rank_model(std::span<const std::span<const layers::LayerSpec>> stages,
                          const LayoutOptions& layout, const layers::Placement& place, at::ScalarType dtype,
                          const tensor::SegmentHolding& holding = {}, const tensor::FillValues& fill = {});

}  // namespace braid::train
