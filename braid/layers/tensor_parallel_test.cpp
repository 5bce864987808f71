// Every layer on the ranks of an mp group against the same layer on one rank.
//
// Bounds, as in layers_test.cpp: the error relative to a tensor's largest entry is about u * chain *
// sqrt(terms), u = 2^-53, 2^-24 or 2^-8, for a chain of 16 rounded tensors and sums of at most 256 terms (1
// in bfloat16, whose sums are in float32, and half of whose tensors are rounded). Against the same layer in
// float64, a group's sums round the ranks' terms and the result in F and again in B: 4 more in the chain. In
// float64 both sides have errors, and twice that is below 1e-12.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "braid/base/error.h"
#include "braid/comm/communicator.h"
#include "braid/comm/testing.h"
#include "braid/layers/attention.h"
#include "braid/layers/embedding.h"
#include "braid/layers/head.h"
#include "braid/layers/layer_spec.h"
#include "braid/layers/mlp.h"
#include "braid/layers/mp_testing.h"
#include "braid/layers/testing.h"
#include "braid/tensor/memory.h"

namespace braid::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kHidden = 24, kHeads = 4, kHeadDim = 6, kIntermediate = 40, kVocabulary = 37, kTokens = 8;
constexpr double kScale = 0.125;
constexpr uint64_t kMicrobatches = 2;

double bound_of(at::ScalarType dtype) {
  constexpr double kChain = 16 + 4, kRootOfTerms = 16;
  switch (dtype) {
    case at::kDouble:
      return 2 * 0x1p-53 * kChain * kRootOfTerms;
    case at::kFloat:
      return 0x1p-24 * kChain * kRootOfTerms;
    default:
      return 0x1p-8 * kChain / 2;
  }
}

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Layer>(const Placement&)> make;
};

Kind attention(int64_t key_value_heads) {
  return {cat("attention with ", key_value_heads, " key-value heads"), [=](const Placement& place) {
            return std::make_unique<Attention>(Attention::Options{
                .name = "layer",
                .hidden = kHidden,
                .heads = kHeads,
                .key_value_heads = key_value_heads,
                .head_dim = kHeadDim,
                .rope = kernels::rope_table({.max_positions = kTokens, .head_dim = kHeadDim}),
                .place = place});
          }};
}

Kind head(int64_t logits_bytes) {
  return {cat("head with ", logits_bytes, " bytes of logits"), [=](const Placement& place) {
            return std::make_unique<Head>(Head::Options{
                .hidden = kHidden, .vocabulary = kVocabulary, .logits_bytes = logits_bytes, .place = place});
          }};
}

std::vector<Kind> all_kinds() {
  return {attention(4),
          attention(2),
          attention(1),
          {"mlp",
           [](const Placement& place) {
             return std::make_unique<Mlp>(Mlp::Options{
                 .name = "layer", .hidden = kHidden, .intermediate = kIntermediate, .place = place});
           }},
          {"embedding",
           [](const Placement& place) {
             return std::make_unique<Embedding>(
                 Embedding::Options{.vocabulary = kVocabulary, .hidden = kHidden, .place = place});
           }},
          head(3000),
          head(1 << 20)};
}

/// B and W of two microbatches.
enum class Mode {
  kSplit,         // B0 B1 W0 W1
  kFused,         // B0 W0 in one, then B1 W1
  kWoven,         // B0, and W0 within B1, then W1
  kWovenForward,  // B0, and W0 within F1, then B1 W1
};

struct Result {
  std::vector<at::Tensor> ys, dxs;
  std::vector<Loss> losses;
  at::Tensor logits;
  std::vector<tensor::Parameter> parameters;
};

struct Data {
  std::vector<at::Tensor> xs, dys, labels;  // whole
};

Data data_for(const Kind& kind, at::ScalarType dtype, int64_t b) {
  Data data;
  for (uint64_t m = 0; m < kMicrobatches; ++m) {
    const at::Tensor ids = (at::arange(b * kTokens, at::kLong) * 7 + static_cast<int64_t>(m * 5))
                               .remainder(kVocabulary)
                               .view({b, kTokens});
    data.xs.push_back(kind.name == "embedding" ? ids
                                               : testing::normal({b, kTokens, kHidden}, m + 1).to(dtype));
    data.dys.push_back(testing::normal({b, kTokens, kHidden}, m + 100).to(dtype));
    at::Tensor labels = ids.clone();
    labels[0][3] = -100;
    labels[b - 1][6] = -100;
    data.labels.push_back(labels);
  }
  return data;
}

Result run(const Kind& kind, const Placement& place, at::ScalarType dtype, const Data& data, Mode mode,
           at::ScalarType rounding) {
  const at::NoGradGuard no_grad;
  const std::unique_ptr<Layer> layer = kind.make(place);
  testing::allocate(*layer, dtype);
  testing::fill_by_name(*layer, rounding);
  LossLayer* const loss = layer->as_loss_layer();
  Result result;
  std::vector<std::unique_ptr<Saved>> saved;
  std::vector<at::Tensor> dys;
  for (size_t m = 0; m < kMicrobatches; ++m) {
    const bool is_ids = !data.xs[m].is_floating_point();
    const at::Tensor x = is_ids ? data.xs[m] : testing::own_rows(data.xs[m].to(dtype), place);
    saved.push_back(layer->make_saved());
    if (loss != nullptr) {
      result.losses.push_back(loss->loss(x, data.labels[m], kScale, saved[m].get()));
      if (mode == Mode::kSplit && m == 0) {
        EXPECT_EQ(loss->loss(x, data.labels[m], kScale, nullptr), result.losses[m]) << "evaluation";
        result.logits = loss->forward(x, nullptr);
      }
      dys.emplace_back();
    } else if (mode == Mode::kWovenForward && m == 1) {
      result.dxs.push_back(layer->backward_input(dys[0], *saved[0]));
      layer->begin_backward_weight(*saved[0]);
      layer->begin_forward(x, *saved[1]);
      layer->backward_weight(*saved[0]);
      result.ys.push_back(layer->end_forward(*saved[1]));
      dys.push_back(testing::own_rows(data.dys[m].to(dtype), place));
    } else {
      result.ys.push_back(layer->forward(x, saved[m].get()));
      if (mode == Mode::kSplit && m == 0) {
        EXPECT_TRUE(at::equal(layer->forward(x, nullptr), result.ys[m])) << "evaluation";
      }
      dys.push_back(testing::own_rows(data.dys[m].to(dtype), place));
    }
  }
  result.dxs.resize(kMicrobatches);
  switch (mode) {
    case Mode::kSplit:
      for (size_t m : {0, 1}) result.dxs[m] = layer->backward_input(dys[m], *saved[m]);
      for (size_t m : {0, 1}) layer->backward_weight(*saved[m]);
      break;
    case Mode::kFused:
      for (size_t m : {0, 1}) result.dxs[m] = layer->backward(dys[m], *saved[m]);
      break;
    case Mode::kWovenForward:
      if (loss != nullptr) {
        result.dxs[0] = layer->backward_input(dys[0], *saved[0]);
        layer->backward_weight(*saved[0]);
      }
      result.dxs[1] = layer->backward_input(dys[1], *saved[1]);
      layer->backward_weight(*saved[1]);
      break;
    case Mode::kWoven:
      result.dxs[0] = layer->backward_input(dys[0], *saved[0]);
      layer->begin_backward_weight(*saved[0]);
      layer->begin_backward_input(dys[1], *saved[1]);
      layer->backward_weight(*saved[0]);
      result.dxs[1] = layer->end_backward_input(*saved[1]);
      layer->backward_weight(*saved[1]);
      break;
  }
  for (const auto& record : saved) EXPECT_TRUE(record->empty()) << "W left something";
  result.parameters = testing::snapshot(*layer);
  return result;
}

void expect_same_bits(const Result& a, const Result& b) {
  ASSERT_EQ(a.ys.size(), b.ys.size());
  for (size_t m = 0; m < a.ys.size(); ++m) EXPECT_TRUE(at::equal(a.ys[m], b.ys[m])) << "output " << m;
  for (size_t m = 0; m < a.dxs.size(); ++m) {
    ASSERT_EQ(a.dxs[m].defined(), b.dxs[m].defined());
    EXPECT_TRUE(!a.dxs[m].defined() || at::equal(a.dxs[m], b.dxs[m])) << "input gradient " << m;
  }
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(a.parameters[i].main_grad, b.parameters[i].main_grad)) << a.parameters[i].name;
  }
}

struct Group {
  int32_t mp;
  bool sequence_parallel;
};

std::ostream& operator<<(std::ostream& out, const Group& group) {
  return out << "mp " << group.mp << (group.sequence_parallel ? ", sequence parallel" : "");
}

/// Calls `body` on every rank of the group, as threads.
void on_ranks(const Group& group, const std::function<void(const Placement&)>& body) {
  comm::run_ranks(group.mp, [&](const comm::World& world, const c10::intrusive_ptr<c10d::Store>& store) {
    comm::Communicator mp(store, comm::group_of_all(world, "mp"), {.timeout = std::chrono::seconds(60)},
                          comm::CallCheck::kOff);
    body({.mp_index = world.rank,
          .mp_degree = group.mp,
          .sequence_parallel = group.sequence_parallel,
          .mp = &mp});
  });
}

void expect_close(const at::Tensor& got, const at::Tensor& want, double bound, const std::string& what) {
  EXPECT_LE(testing::relative_error(got.view(-1), want.reshape(-1)), bound) << what;
}

class TensorParallel : public ::testing::TestWithParam<Group> {};

TEST_P(TensorParallel, EveryLayerIsThatOfOneRank) {
  const Group group = GetParam();
  struct Run {
    Kind kind;
    at::ScalarType dtype;
    Data data;
    std::vector<Result> of_ranks;
  };
  std::vector<Run> runs;
  const auto add = [&](const Kind& kind, at::ScalarType dtype, int64_t b) {
    runs.push_back(
        {kind, dtype, data_for(kind, dtype, b), std::vector<Result>(static_cast<size_t>(group.mp))});
  };
  for (const Kind& kind : all_kinds()) {
    add(kind, at::kDouble, 1);
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) add(kind, dtype, 3);
  }
  add(head(1), at::kDouble, 1);  // a block for each row
  on_ranks(group, [&](const Placement& place) {
    for (Run& r : runs) {
      SCOPED_TRACE(::testing::Message() << r.kind.name << ", " << r.dtype << ", rank " << place.mp_index);
      const Result split = run(r.kind, place, r.dtype, r.data, Mode::kSplit, r.dtype);
      expect_same_bits(run(r.kind, place, r.dtype, r.data, Mode::kFused, r.dtype), split);
      expect_same_bits(run(r.kind, place, r.dtype, r.data, Mode::kWoven, r.dtype), split);
      expect_same_bits(run(r.kind, place, r.dtype, r.data, Mode::kWovenForward, r.dtype), split);
      r.of_ranks[static_cast<size_t>(place.mp_index)] = split;
    }
  });
  for (const Run& r : runs) {
    SCOPED_TRACE(::testing::Message() << r.kind.name << ", " << r.dtype << ", b " << r.data.xs[0].size(0));
    const double bound = bound_of(r.dtype);
    const Result want = run(r.kind, {}, at::kDouble, r.data, Mode::kSplit, r.dtype);
    const auto rows = [&](const auto& of_result) {
      std::vector<at::Tensor> parts;
      for (const Result& result : r.of_ranks) parts.push_back(of_result(result));
      return testing::all_rows(parts, group.sequence_parallel);
    };
    for (size_t m = 0; m < kMicrobatches; ++m) {
      if (!want.ys.empty()) {
        const at::Tensor y = rows([&](const Result& result) { return result.ys[m]; });
        if (r.kind.name == "embedding") {
          EXPECT_TRUE(at::equal(y.to(at::kDouble), want.ys[m].view_as(y))) << "a sum with zeros is exact";
        }
        expect_close(y, want.ys[m], bound, "output");
      } else {
        for (const Result& result : r.of_ranks) {
          EXPECT_EQ(result.losses[m], r.of_ranks[0].losses[m]) << "ranks have different loss bits";
          EXPECT_TRUE(at::equal(result.logits, r.of_ranks[0].logits));
        }
        const Loss loss = r.of_ranks[0].losses[m];
        EXPECT_EQ(loss.tokens, want.losses[m].tokens);
        EXPECT_NEAR(loss.sum, want.losses[m].sum, bound * std::abs(want.losses[m].sum));
        EXPECT_EQ(r.of_ranks[0].logits.sizes(), want.logits.sizes());
        expect_close(r.of_ranks[0].logits, want.logits, bound, "logits");
      }
      if (want.dxs[m].defined()) {
        expect_close(rows([&](const Result& result) { return result.dxs[m]; }), want.dxs[m], bound,
                     "input gradient");
      }
    }
    std::vector<std::vector<tensor::Parameter>> parameters;
    for (const Result& result : r.of_ranks) parameters.push_back(result.parameters);
    const testing::Whole got = testing::whole_gradients(parameters);
    for (const auto& [name, gradient] : testing::whole_gradients({want.parameters})) {
      ASSERT_TRUE(got.contains(name)) << name;
      expect_close(got.at(name), gradient, bound, name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, TensorParallel,
                         ::testing::Values(Group{1, false}, Group{2, false}, Group{2, true}, Group{4, false},
                                           Group{4, true}));

// A rank's parameters, by what main_grad is.
TEST(TensorParallelParameters, StateTheirCopiesAndWhatIsPartial) {
  const auto of = [](const Kind& kind, bool sequence_parallel) {
    std::string text;
    const Placement place = {.device = c10::Device(c10::kMeta),
                             .mp_index = 1,
                             .mp_degree = 4,
                             .sequence_parallel = sequence_parallel};
    const std::unique_ptr<Layer> layer = kind.make(place);
    for (const tensor::Parameter* p : parameters_of(*layer)) {
      for (const tensor::TensorSlice& slice : p->slices) text += to_string(slice) + " ";
      text += cat(p->copies, "/", p->partial_over, "; ");
    }
    return text;
  };
  EXPECT_EQ(of(attention(4), false),
            "layer.input_layernorm.weight 4/1; "
            "layer.self_attn.q_proj.weight[6:12, 0:24] layer.self_attn.k_proj.weight[6:12, 0:24] "
            "layer.self_attn.v_proj.weight[6:12, 0:24] 1/1; layer.self_attn.o_proj.weight[0:24, 6:12] 1/1; ");
  EXPECT_EQ(of(attention(2), true),
            "layer.input_layernorm.weight 4/4; layer.self_attn.q_proj.weight[6:12, 0:24] 1/1; "
            "layer.self_attn.k_proj.weight[0:6, 0:24] layer.self_attn.v_proj.weight[0:6, 0:24] 2/2; "
            "layer.self_attn.o_proj.weight[0:24, 6:12] 1/1; ");
  EXPECT_EQ(of(all_kinds()[3], false),
            "layer.post_attention_layernorm.weight 4/1; layer.mlp.gate_proj.weight[10:20, 0:24] "
            "layer.mlp.up_proj.weight[10:20, 0:24] 1/1; layer.mlp.down_proj.weight[0:24, 10:20] 1/1; ");
  EXPECT_EQ(of(all_kinds()[4], true), "model.embed_tokens.weight[10:20, 0:24] 1/1; ");
  EXPECT_EQ(of(head(1), true), "model.norm.weight 4/4; lm_head.weight[10:20, 0:24] 1/1; ");
}

TEST(TensorParallelMemory, LogitsOfTwoBlocksAtMost) {
  tensor::install_cpu_allocator();
  on_ranks({2, false}, [](const Placement& place) {
    const tensor::ArenaScope scope;
    const at::NoGradGuard no_grad;
    constexpr int64_t kColumns = 4096, kRows = 512, kWidth = 32, kLogitsBytes = 256 << 10;
    Head layer({.hidden = kWidth, .vocabulary = kColumns, .logits_bytes = kLogitsBytes, .place = place});
    testing::randomise(layer, at::kFloat, 1, 0.1);
    const at::Tensor x = testing::normal({1, kRows, kWidth}, 1).to(at::kFloat);
    const at::Tensor labels = at::arange(kRows, at::kLong).view({1, kRows});
    tensor::reset_peak_memory_stats();
    const int64_t before = tensor::memory_stats().allocated_bytes;
    HeadSaved saved;
    layer.loss(x, labels, 1.0, &saved);
    const int64_t peak = tensor::memory_stats().max_allocated_bytes - before;
    // The norm's output and the gradient of it, which the group's sum may need once more; 1 / rms; the
    // logits; statistics and small vectors of a row each.
    EXPECT_LE(peak, 3 * kRows * kWidth * 4 + kRows * 4 + kLogitsBytes + kRows * 128);
    EXPECT_LT(peak, kRows * kColumns / place.mp_degree * 4 / 4) << "all logits would take four times as much";
  });
}

TEST(TensorParallelMisuse, SizesThatTheGroupCannotCut) {
  const Placement of_four = {.device = c10::Device(c10::kMeta), .mp_index = 0, .mp_degree = 4};
  EXPECT_THAT([&] { Mlp({.name = "m", .hidden = 4, .intermediate = 6, .place = of_four}); },
              ThrowsMessage<ConfigError>("intermediate_size must be a multiple of the mp degree 4, got 6"));
  const auto attention_of = [&](int64_t heads, int64_t key_value_heads) {
    Attention({.name = "a",
               .hidden = 4,
               .heads = heads,
               .key_value_heads = key_value_heads,
               .head_dim = 2,
               .place = of_four});
  };
  EXPECT_THAT([&] { attention_of(6, 6); },
              ThrowsMessage<ConfigError>("num_attention_heads must be a multiple of the mp degree 4, got 6"));
  EXPECT_THAT([&] { attention_of(12, 6); },
              ThrowsMessage<ConfigError>("num_key_value_heads must be a multiple of the mp degree 4, got 6"));
  EXPECT_THAT([&] { attention_of(12, 3); },
              ThrowsMessage<ConfigError>(
                  "num_key_value_heads must be a divisor of the mp degree 4 if it is smaller, got 3"));
  EXPECT_THAT([&] { Embedding({.vocabulary = 5, .hidden = 4, .place = of_four}); },
              ThrowsMessage<ConfigError>("vocab_size 5 is too small for the mp degree 4: with 2 tokens each, "
                                         "rank 3 of the mp group would have none"));
  EXPECT_NO_THROW(Head({.hidden = 4, .vocabulary = 7, .place = of_four}));
  EXPECT_THROW(Head({.hidden = 4, .vocabulary = 3, .place = of_four}), ConfigError);
}

TEST(TensorParallelMisuse, EveryVocabularyIsCutCompletelyOrRejected) {
  for (int32_t mp = 1; mp <= 8; ++mp) {
    for (int64_t vocabulary = 1; vocabulary <= 40; ++vocabulary) {
      SCOPED_TRACE(::testing::Message() << vocabulary << " over " << mp);
      const int64_t size = (vocabulary + mp - 1) / mp;
      const bool is_rejected = (vocabulary + size - 1) / size < mp;
      int64_t end = 0;
      for (int32_t rank = 0; rank < mp; ++rank) {
        const Placement place = {.mp_index = rank, .mp_degree = mp};
        if (is_rejected) {
          EXPECT_THROW(vocabulary_part(vocabulary, place), ConfigError);
          continue;
        }
        const tensor::Range part = vocabulary_part(vocabulary, place);
        EXPECT_EQ(part.begin, end);
        EXPECT_GT(part.size(), 0);
        end = part.end;
      }
      EXPECT_EQ(end, is_rejected ? 0 : vocabulary);
    }
  }
}

TEST(TensorParallelMisuse, PlacementsThatContradictThemselves) {
  const LayerSpec uncut = {.name = "mine", .make = [](const Placement&) {
                             return std::make_unique<Linear>(std::vector{tensor::whole_tensor("w", {2, 2})});
                           }};
  EXPECT_NO_THROW(make_without_data(uncut));
  EXPECT_THAT([&] { make_without_data(uncut, {.mp_degree = 2}); },
              ThrowsMessage<ConfigError>(HasSubstr("layer mine cannot be cut across 2 ranks")));
  EXPECT_THAT([&] { make_without_data(uncut, {.mp_degree = 0}); },
              ThrowsMessage<ConfigError>("mp_degree must be >= 1, got 0"));
  EXPECT_THAT([&] { make_without_data(uncut, {.mp_index = 2, .mp_degree = 2}); },
              ThrowsMessage<ConfigError>("mp_index must be in [0, 2), got 2"));
  EXPECT_THAT([&] { make_without_data(uncut, {.sequence_parallel = true}); },
              ThrowsMessage<ConfigError>("sequence_parallel needs an mp_degree > 1, got 1"));
  EXPECT_THAT([&] { make_layer(uncut, {.mp_degree = 2}); },
              ThrowsMessage<InternalError>(HasSubstr("needs the mp group's communicator")));
  EXPECT_THAT([&] { make_without_data({.name = "empty"}); },
              ThrowsMessage<ConfigError>("the spec of layer empty has no make function"));
  on_ranks({2, false}, [&](const Placement& place) {
    Placement wrong = place;
    wrong.mp_index = 1 - place.mp_index;
    EXPECT_THAT(
        [&] { make_layer(uncut, wrong); },
        ThrowsMessage<InternalError>(HasSubstr(cat("got the communicator of member ", place.mp_index))));
  });
}

TEST(TensorParallelMisuse, DataThatDoesNotFitIsRejectedOnEveryRank) {
  on_ranks({2, true}, [](const Placement& place) {
    const at::NoGradGuard no_grad;
    Embedding layer({.vocabulary = kVocabulary, .hidden = kHidden, .place = place});
    testing::allocate(layer, at::kFloat);
    EXPECT_THAT(
        [&] {
          layer.forward(at::zeros({2, 3}, at::kLong), nullptr);
        },
        ThrowsMessage<ShapeError>("a sequence of 3 tokens cannot be cut across 2 ranks: sequence "
                                  "parallelism needs a multiple of the mp degree"));
    EXPECT_THAT(
        [&] {
          layer.forward(at::full({2, 4}, kVocabulary, at::kLong), nullptr);
        },
        ThrowsMessage<DataError>(HasSubstr("token id 37 at position 0 is outside the vocabulary of 37")));
    Head last({.hidden = kHidden, .vocabulary = kVocabulary, .place = place});
    testing::randomise(last, at::kFloat, 1, 0.1);
    EXPECT_THAT(
        [&] {
          last.loss(at::ones({1, 2, kHidden}), at::full({1, 4}, kVocabulary, at::kLong), 1, nullptr);
        },
        ThrowsMessage<DataError>(HasSubstr("target 37 at row 0 is not a token id: ids are 0 to 36")));
  });
}

}  // namespace
}  // namespace braid::layers
