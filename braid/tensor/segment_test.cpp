#include "braid/tensor/segment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>

#include "braid/base/error.h"
#include "braid/tensor/memory.h"

namespace braid::tensor {
namespace {

/// Layers of one parameter each, with these numbers of elements.
class Segments : public ::testing::Test {
 protected:
  std::vector<LayerParameters> layers_of(const std::vector<int64_t>& numels) {
    std::vector<LayerParameters> layers;
    for (const int64_t numel : numels) {
      const std::string name = cat("layer", parameters_.size());
      parameters_.push_back(declare_parameter({whole_tensor(name, {numel})}));
      layers.push_back({.layer = name, .parameters = {&parameters_.back()}});
    }
    return layers;
  }

  static std::vector<size_t> sizes(const std::vector<SegmentLayout>& layouts) {
    std::vector<size_t> result;
    for (const SegmentLayout& layout : layouts) result.push_back(layout.members.size());
    return result;
  }

  std::deque<Parameter> parameters_;
};

TEST_F(Segments, EndWithTheLayerThatFillsThem) {
  const auto layers = layers_of({32, 32, 64, 128, 32, 32});
  EXPECT_EQ(sizes(lay_out_segments(layers, {.bytes = 4 * 64}, 4)), (std::vector<size_t>{2, 1, 1, 2}));
  EXPECT_EQ(sizes(lay_out_segments(layers, {.bytes = 4 * 64}, 2)), (std::vector<size_t>{3, 1, 2}));
  EXPECT_EQ(sizes(lay_out_segments(layers, {}, 4)), (std::vector<size_t>{6})) << "32 MiB hold them all";
  EXPECT_EQ(sizes(lay_out_segments({}, {}, 4)), std::vector<size_t>{});
}

TEST_F(Segments, BeginWithTheirAnchors) {
  const auto layers = layers_of({32, 32, 64, 128, 32, 32});
  EXPECT_EQ(sizes(lay_out_segments(layers, {.bytes = 1, .anchors = {"layer2", "layer5", "absent"}}, 4)),
            (std::vector<size_t>{2, 3, 1}));
}

TEST_F(Segments, EveryParameterBeginsOnAUnitAndPaddingIsZero) {
  install_cpu_allocator();
  const ArenaScope scope;
  const auto layers = layers_of({1, 31, 32, 33, 7});
  const auto layouts = lay_out_segments(layers, {}, 2);
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].offsets, (std::vector<int64_t>{0, 32, 64, 96, 160}));
  EXPECT_EQ(layouts[0].numel, 192);
  const int64_t before = memory_stats().allocated_bytes;
  const std::vector<Segment> segments = allocate_segments(layouts, at::kBFloat16);
  EXPECT_EQ(memory_stats().allocated_bytes - before, 192 * (2 + 4)) << "two buffers and nothing else";
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parameter.value.data_ptr()) % 64, 0u);
    EXPECT_EQ(parameter.main_grad.scalar_type(), at::kFloat);
    parameter.value.fill_(static_cast<double>(i) + 1);
    parameter.main_grad.fill_(static_cast<double>(i) + 1);
  }
  const double expected = 1 * 1 + 31 * 2 + 32 * 3 + 33 * 4 + 7 * 5;
  EXPECT_EQ(segments[0].values.sum(at::kDouble).item<double>(), expected);
  EXPECT_EQ(segments[0].gradients.sum(at::kDouble).item<double>(), expected);
}

TEST_F(Segments, ATiedParameterSharesTheValueAndKeepsItsOwnGradient) {
  const auto layers = layers_of({8});
  allocate_segments(lay_out_segments(layers, {}, 4), at::kFloat);
  Parameter user = declare_parameter({whole_tensor("layer0", {8})});
  share_value(user, parameters_[0]);
  EXPECT_EQ(user.value.data_ptr(), parameters_[0].value.data_ptr());
  EXPECT_NE(user.main_grad.data_ptr(), parameters_[0].main_grad.data_ptr());
  Parameter other = declare_parameter({whole_tensor("another", {8})});
  EXPECT_THROW(share_value(other, parameters_[0]), InternalError);
}

}  // namespace
}  // namespace braid::tensor
