#include "braid/optim/state_store.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "braid/base/error.h"
#include "braid/base/scratch_directory.h"
#include "braid/base/text.h"
#include "braid/optim/adamw.h"
#include "braid/optim/staged_store.h"
#include "braid/optim/test_parameters.h"
#include "braid/tensor/memory.h"

namespace braid::optim {
namespace {

using Maker = std::function<std::unique_ptr<StateStore>(const std::string& directory)>;

struct Kind {
  const char* name;
  Maker make;
};

/// Every store that offloads. On the CPU the copies to and from the device go through ordinary memory.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kAll = {
      {"file", [](const std::string& directory) { return make_file_store({.directory = directory}); }},
      {"pinned", [](const std::string&) { return make_pinned_store(at::kCPU); }},
      {"file of a device",
       [](const std::string& directory) {
         return make_staged_store({.device = at::kCPU, .host = HostMemory::kPageable},
                                  make_file_store({.directory = directory}));
       }},
      {"file of a device, copied ahead",
       [](const std::string& directory) {
         return make_staged_store({.device = at::kCPU, .host = HostMemory::kPinned},
                                  make_file_store({.directory = directory}));
       }},
  };
  return kAll;
}

// Offloading changes where numbers are, never a bit of them: the weights agree with those of the memory store
// after every step, for segments of different sizes, and for one segment alone.
TEST(StateStore, WeightsDoNotDependOnIt) {
  const ScratchDirectory directory;
  for (const Kind& kind : kinds()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
      for (const size_t count : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(testing::Message() << kind.name << ", " << dtype << ", " << count << " segments");
        TestParameters expected(count, dtype), got(count, dtype);
        AdamW reference(expected.segments, make_memory_store(), {.weight_decay = 0.1});
        AdamW offloaded(got.segments, kind.make(directory.path()), {.weight_decay = 0.1});
        for (uint64_t step = 0; step < 4; ++step) {
          expected.set_gradients(100 * step);
          got.set_gradients(100 * step);
          reference.step(1e-2, 0.7);
          offloaded.step(1e-2, 0.7);
          for (size_t i = 0; i < count; ++i)
            ASSERT_TRUE(at::equal(expected.segments[i].values, got.segments[i].values)) << "segment " << i;
        }
      }
    }
  }
}

// Segments taken in any order, expected or not, modified or not, with or without a master that stays where it
// is, hold what was last written to them.
TEST(StateStore, KeepsWhatWasWritten) {
  const ScratchDirectory directory;
  for (const Kind& kind : kinds()) {
    for (const int64_t count : {1, 2, 3, 8}) {
      SCOPED_TRACE(testing::Message() << kind.name << ", " << counted(count, "segment"));
      const std::unique_ptr<StateStore> store = kind.make(directory.path());
      std::vector<SegmentStates> model;
      std::vector<at::Tensor> weights;  // those of odd segments are their own masters
      for (int64_t i = 0; i < count; ++i) {
        const auto filled = [&](double value) { return at::full({5 + 37 * (i * 5 % 7)}, value + 10.0 * i); };
        weights.push_back(filled(1));
        store->add({.master = i % 2 == 1 ? weights.back() : filled(1),
                    .exp_avg = filled(2),
                    .exp_avg_sq = filled(3)});
        model.push_back({.master = filled(1), .exp_avg = filled(2), .exp_avg_sq = filled(3)});
      }
      std::mt19937 random(7);
      for (int use = 0; use < 300; ++use) {
        const size_t expected = random() % count, index = random() % count;
        if (random() % 3 == 0) store->expect(expected);
        SegmentStates& states = store->take(index);
        if (random() % 3 == 0) store->expect(expected);
        ASSERT_TRUE(at::equal(states.master, model[index].master)) << "use " << use;
        ASSERT_TRUE(at::equal(states.exp_avg, model[index].exp_avg)) << "use " << use;
        ASSERT_TRUE(at::equal(states.exp_avg_sq, model[index].exp_avg_sq)) << "use " << use;
        for (const SegmentStates& target : {states, model[index]}) {
          target.master.add_(1);
          target.exp_avg.add_(2);
          target.exp_avg_sq.mul_(3).remainder_(7);
        }
        store->give_back(index);
      }
      for (size_t i = 1; i < weights.size(); i += 2)
        EXPECT_TRUE(at::equal(weights[i], model[i].master)) << "the master is the weights themselves";
    }
  }
}

struct Bytes {
  int64_t states = 0;   // of all that move
  int64_t largest = 0;  // of one segment
};

Bytes bytes_of(const TestParameters& parameters) {
  Bytes bytes;
  for (const tensor::Segment& segment : parameters.segments) {
    const bool moves_master = segment.values.scalar_type() != segment.gradients.scalar_type();
    const auto own = static_cast<int64_t>(segment.gradients.nbytes()) * (moves_master ? 3 : 2);
    bytes.states += own;
    bytes.largest = std::max(bytes.largest, own);
  }
  return bytes;
}

// The file holds all states: allocated memory falls by their bytes, and an update allocates nothing at all.
// Staging needs memory for three segments of the largest size besides the host's copy, or for one if the
// host's memory is pageable.
TEST(StateStore, AllocatedMemory) {
  tensor::install_cpu_allocator();
  const tensor::ArenaScope scope;
  const ScratchDirectory directory;
  const auto allocated = [] { return tensor::memory_stats().allocated_bytes; };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    TestParameters parameters(5, dtype);
    const Bytes bytes = bytes_of(parameters);
    const std::vector<std::pair<Maker, int64_t>> expected = {
        {[](const std::string&) { return make_memory_store(); }, bytes.states},
        {kinds()[0].make, 0},
        {kinds()[1].make, bytes.states + 3 * bytes.largest},
        {kinds()[2].make, bytes.largest},
    };
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "store " << i << ", " << dtype);
      const int64_t before = allocated();
      AdamW adamw(parameters.segments, expected[i].first(directory.path()), {});
      EXPECT_EQ(allocated() - before, expected[i].second);
      for (uint64_t step = 0; step < 2; ++step) {
        parameters.set_gradients(step);
        tensor::reset_peak_memory_stats();
        adamw.step(1e-3, 1.0);
        EXPECT_EQ(tensor::memory_stats().max_allocated_bytes - before, expected[i].second);
      }
    }
    parameters.segments.clear();
  }
}

TEST(StateStore, MemoryThatOthersHoldIsShared) {
  at::Tensor alone = at::zeros({4});
  EXPECT_FALSE(is_shared(alone));
  {
    const std::vector<at::Tensor> same = {alone};
    EXPECT_TRUE(is_shared(alone));
  }
  {
    const at::Tensor view = alone.narrow(0, 1, 2);
    EXPECT_TRUE(is_shared(alone));
    EXPECT_TRUE(is_shared(view));
  }
  EXPECT_FALSE(is_shared(alone));
  EXPECT_FALSE(is_shared({}));
}

TEST(StateStore, MisuseIsAnError) {
  const ScratchDirectory directory;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const std::unique_ptr<StateStore> store = kind.make(directory.path());
    for (int i = 0; i < 2; ++i)
      store->add({.master = at::zeros({8}), .exp_avg = at::zeros({8}), .exp_avg_sq = at::zeros({8})});
    EXPECT_THROW(store->give_back(0), InternalError);
    store->take(0);
    EXPECT_THROW(store->take(0), InternalError);
    store->give_back(0);
    EXPECT_THROW(store->give_back(0), InternalError);
    EXPECT_THROW(store->take(2), std::logic_error);
    store->take(1);
    store->give_back(1);
  }
}

// In a build with CUDA it is the device that does not exist.
TEST(StateStore, AGpuThatIsNotThereIsAnError) {
  const at::Device no_gpu(at::kCUDA, 63);
  const ScratchDirectory directory;
  EXPECT_THROW(make_pinned_store(no_gpu), ConfigError);
  EXPECT_THROW(make_file_store({.directory = directory.path(), .device = no_gpu}), ConfigError);
}

}  // namespace
}  // namespace braid::optim
