// What layers keep of a microbatch, held against its spec's formulas and against the allocator.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "braid/layers/attention.h"
#include "braid/model/initialise.h"
#include "braid/model/llama.h"
#include "braid/tensor/memory.h"
#include "braid/train/rank_model.h"

namespace braid::train {
namespace {

struct Case {
  at::ScalarType dtype;
  int64_t key_value_heads;
  int64_t sequences;
  int64_t sequence_tokens;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.dtype << ", " << c.key_value_heads << " key-value heads, " << c.sequences << " x "
             << c.sequence_tokens;
}

class SavedBytesOf : public ::testing::TestWithParam<Case> {};

TEST_P(SavedBytesOf, EveryLayerEqualsTheFormula) {
  tensor::install_cpu_allocator();
  const tensor::ArenaScope scope;
  const at::NoGradGuard no_grad;
  const Case c = GetParam();
  const config::ModelConfig config = {.vocab_size = 61,
                                      .hidden_size = 48,
                                      .intermediate_size = 80,
                                      .num_hidden_layers = 1,
                                      .num_attention_heads = 6,
                                      .num_key_value_heads = c.key_value_heads,
                                      .max_position_embeddings = 32};
  const auto element = static_cast<int64_t>(c10::elementSize(c.dtype));
  const cost::MicrobatchShape shape = {.sequences = c.sequences,
                                       .sequence_tokens = c.sequence_tokens,
                                       .element_bytes = element,
                                       .wide_element_bytes = element == 8 ? 8 : 4};
  const std::vector<layers::LayerSpec> specs = model::llama_spec(config).layers;
  const std::span<const layers::LayerSpec> whole(specs);
  const RankModel model = make_rank_model(std::span(&whole, 1), {}, {}, c.dtype);
  model::initialise(model.parameters(), {.seed = 1});
  const StageModel& stage = model.stages.front();

  at::Tensor x = at::randint(config.vocab_size, {c.sequences, c.sequence_tokens}, at::kLong);
  const at::Tensor labels = x.clone();
  std::vector<std::unique_ptr<layers::Saved>> saved;
  // The allocator's view: what is live beyond weights, the running activation and the labels is what the
  // layers keep, each tensor rounded up.
  const int64_t before = tensor::memory_stats().allocated_bytes;
  int64_t kept = 0;
  for (size_t i = 0; i < stage.layers.size(); ++i) {
    saved.push_back(stage.layers[i]->make_saved());
    if (layers::LossLayer* head = stage.layers[i]->as_loss_layer()) {
      head->loss(x, labels, 1.0, saved.back().get());
    } else {
      x = stage.layers[i]->forward(x, saved.back().get());
    }
    EXPECT_EQ(saved.back()->bytes(), specs[i].saved_bytes(shape).forward_to_backward)
        << "layer " << i << " after F";
    kept += saved.back()->bytes();
  }
  constexpr int64_t kTensors = 16;  // at most this many live ones, each rounded up to the allocator's unit
  const int64_t live = tensor::memory_stats().allocated_bytes - before;
  // The tokens were there before; everything else in `kept` is new and nothing new is not in it.
  EXPECT_NEAR(static_cast<double>(live), static_cast<double>(kept - labels.nbytes()),
              static_cast<double>(kTensors * tensor::kAllocationUnitBytes));

  at::Tensor dy;
  for (size_t i = stage.layers.size(); i-- > 0;) {
    dy = stage.layers[i]->backward_input(dy, *saved[i]);
    EXPECT_EQ(saved[i]->bytes(), specs[i].saved_bytes(shape).backward_to_weight)
        << "layer " << i << " after B";
  }
  x.reset();
  for (size_t i = stage.layers.size(); i-- > 0;) {
    stage.layers[i]->backward_weight(*saved[i]);
    EXPECT_EQ(saved[i]->bytes(), 0) << "layer " << i << " after W";
  }
  // The tokens, whose last owner was the embedding's record, are gone too.
  EXPECT_EQ(tensor::memory_stats().allocated_bytes, before - static_cast<int64_t>(labels.nbytes()))
      << "something is left after W";
}

INSTANTIATE_TEST_SUITE_P(Shapes, SavedBytesOf,
                         ::testing::Values(Case{at::kFloat, 6, 2, 16}, Case{at::kFloat, 3, 1, 32},
                                           Case{at::kBFloat16, 6, 2, 16}, Case{at::kBFloat16, 2, 4, 32},
                                           Case{at::kDouble, 6, 1, 16}));

}  // namespace
}  // namespace braid::train
