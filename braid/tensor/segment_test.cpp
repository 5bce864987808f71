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
  const auto layers = layers_of({256, 256, 512, 1024, 256, 256});
  EXPECT_EQ(sizes(lay_out_segments(layers, {.bytes = 4 * 512}, 4)), (std::vector<size_t>{2, 1, 1, 2}));
  EXPECT_EQ(sizes(lay_out_segments(layers, {.bytes = 4 * 512}, 2)), (std::vector<size_t>{3, 1, 2}));
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
  const auto layers = layers_of({1, 255, 256, 257, 7});
  const auto layouts = lay_out_segments(layers, {}, 2);
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].offsets, (std::vector<int64_t>{0, 256, 512, 768, 1280}));
  EXPECT_EQ(layouts[0].numel, 1536);
  const int64_t before = memory_stats().allocated_bytes;
  const std::vector<Segment> segments = allocate_segments(layouts, at::kBFloat16);
  EXPECT_EQ(memory_stats().allocated_bytes - before, 1536 * (2 + 4)) << "two buffers and nothing else";
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = parameters_[i];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parameter.value.data_ptr()) % 64, 0u);
    EXPECT_EQ(parameter.main_grad.scalar_type(), at::kFloat);
    parameter.value.fill_(static_cast<double>(i) + 1);
    parameter.main_grad.fill_(static_cast<double>(i) + 1);
  }
  const double expected = 1 * 1 + 255 * 2 + 256 * 3 + 257 * 4 + 7 * 5;
  EXPECT_EQ(segments[0].values.sum(at::kDouble).item<double>(), expected);
  EXPECT_EQ(segments[0].gradients.sum(at::kDouble).item<double>(), expected);
}

TEST_F(Segments, DivideIntoEqualPartsOfWholeUnits) {
  const auto layers = layers_of({1, 300, 256, 700});
  for (const int64_t parts : {1, 2, 3, 4, 8}) {
    const auto layouts = lay_out_segments(layers, {}, 4, parts);
    ASSERT_EQ(layouts.size(), 1u);
    EXPECT_EQ(layouts[0].numel % (parts * kSegmentUnit), 0);
    EXPECT_GE(layouts[0].numel, 256 + 512 + 256 + 768);
    EXPECT_LT(layouts[0].numel, 256 + 512 + 256 + 768 + parts * kSegmentUnit);
    for (int64_t part = 0; part < parts; ++part) {
      const Segment segment = allocate_segments(layouts, at::kFloat, {.parts = parts, .part = part})[0];
      EXPECT_EQ(segment.own.size() * parts, layouts[0].numel);
      EXPECT_EQ(segment.own.begin, part * segment.own.size());
      EXPECT_EQ(segment.own_values.data_ptr(), segment.values.const_data_ptr<float>() + segment.own.begin);
      EXPECT_EQ(segment.own_gradients.data_ptr(),
                segment.gradients.const_data_ptr<float>() + segment.own.begin);
    }
  }
}

TEST_F(Segments, OnlyAPartMayBeHeld) {
  install_cpu_allocator();
  const ArenaScope scope;
  const auto layers = layers_of({512, 512});
  const auto layouts = lay_out_segments(layers, {}, 2, 4);
  const int64_t before = memory_stats().allocated_bytes;
  std::vector<Segment> segments = allocate_segments(
      layouts, at::kBFloat16, {.parts = 4, .part = 1, .only_own_values = true, .only_own_gradients = true},
      [](std::span<Parameter* const> members) {
        for (size_t i = 0; i < members.size(); ++i) members[i]->value.fill_(static_cast<double>(i + 1));
      });
  Segment& segment = segments[0];
  EXPECT_EQ(memory_stats().allocated_bytes - before, 256 * (2 + 4));
  EXPECT_FALSE(parameters_[0].value.defined());
  EXPECT_FALSE(parameters_[0].main_grad.defined());
  EXPECT_EQ(segment.own_values.sum(at::kDouble).item<double>(), 256.0) << "the second half of the first one";

  segment.bind_gradients(empty_gradients(segment));
  EXPECT_EQ(parameters_[1].main_grad.sizes(), at::IntArrayRef({512}));
  segment.bind_gradients({});
  EXPECT_FALSE(parameters_[1].main_grad.defined());
  segment.bind_values(at::full({1024}, 3.0, at::kBFloat16));
  EXPECT_EQ(parameters_[1].value.sum().item<double>(), 3.0 * 512);
}

TEST_F(Segments, OnlyOneIsWholeAtATimeWhileTheyAreFilled) {
  install_cpu_allocator();
  const ArenaScope scope;
  const auto layers = layers_of({1024, 1024, 1024});
  const auto layouts = lay_out_segments(layers, {.bytes = 1}, 4, 4);
  const int64_t before = memory_stats().allocated_bytes;
  int64_t filled = 0;
  const std::vector<Segment> segments = allocate_segments(
      layouts, at::kFloat, {.parts = 4, .part = 3, .only_own_values = true, .only_own_gradients = true},
      [&](std::span<Parameter* const> members) {
        ASSERT_EQ(members.size(), 1U);
        EXPECT_EQ(members.front(), &parameters_[static_cast<size_t>(filled)]);
        EXPECT_EQ(memory_stats().allocated_bytes - before, 1024 * 4 + filled * 256 * (4 + 4));
        members.front()->value.fill_(static_cast<double>(++filled));
      });
  EXPECT_EQ(filled, 3);
  EXPECT_EQ(memory_stats().allocated_bytes - before, 3 * 256 * (4 + 4));
  EXPECT_EQ(segments[2].own_values.sum(at::kDouble).item<double>(), 3.0 * 256);
}

TEST_F(Segments, WhatStandsApartHasItsOwnSegmentInTheGroupOfItsLayer) {
  auto layers = layers_of({256, 256, 256, 256});
  layers[0].apart = layers[0].parameters;
  layers[3].parameters.push_back(layers_of({512})[0].parameters[0]);
  layers[3].apart = {layers[3].parameters[1]};
  const auto layouts = lay_out_segments(layers, {.bytes = 4 * 512}, 4);
  std::vector<int32_t> groups;
  std::vector<bool> apart;
  for (const SegmentLayout& layout : layouts) {
    groups.push_back(layout.group);
    apart.push_back(layout.is_apart);
  }
  EXPECT_EQ(sizes(layouts), (std::vector<size_t>{1, 1, 2, 1}));
  EXPECT_EQ(groups, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(apart, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(layer_groups(layouts, 4), (std::vector<Range>{{0, 2}, {2, 4}}));
  EXPECT_EQ(layer_groups({}, 3), (std::vector<Range>{{0, 3}}));
}

TEST_F(Segments, ATiedParameterSharesTheValueAndKeepsItsOwnGradient) {
  const auto layers = layers_of({8});
  const auto segments = allocate_segments(lay_out_segments(layers, {}, 4), at::kFloat);
  Parameter user = declare_parameter({whole_tensor("layer0", {8})});
  const auto layout_of = [](Parameter& parameter) {
    return SegmentLayout{.members = {&parameter}, .offsets = {0}, .numel = 256};
  };
  const Segment tied = allocate_tied_segment(layout_of(user), segments[0], {});
  EXPECT_EQ(user.value.data_ptr(), parameters_[0].value.data_ptr());
  EXPECT_NE(user.main_grad.data_ptr(), parameters_[0].main_grad.data_ptr());
  EXPECT_EQ(tied.own_gradients.data_ptr(), user.main_grad.data_ptr());
  Parameter other = declare_parameter({whole_tensor("another", {8})});
  EXPECT_THROW(allocate_tied_segment(layout_of(other), segments[0], {}), InternalError);
}

TEST_F(Segments, EndingGradientsNamesOneThatIsMissing) {
  const auto layers = layers_of({8, 8});
  const auto segments = allocate_segments(lay_out_segments(layers, {}, 4), at::kFloat);
  parameters_[0].gradient_started = true;
  EXPECT_THROW(segments[0].end_gradients(), InternalError);
  parameters_[0].gradient_started = parameters_[1].gradient_started = true;
  segments[0].end_gradients();
  EXPECT_FALSE(parameters_[0].gradient_started || parameters_[1].gradient_started);
}

}  // namespace
}  // namespace braid::tensor
