#include "braid/model/initialise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "braid/base/random.h"

namespace braid::model {
namespace {

/// Normal values number [first, first + count) of the stream `key`, times `deviation`.
void fill_normal(uint64_t key, double deviation, int64_t first, int64_t count, float* data) {
  constexpr int64_t kPairsPerTask = 1 << 14;
  at::parallel_for(first / 2, (first + count + 1) / 2, kPairsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const auto normal = normal_pair(key, static_cast<uint64_t>(pair));
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t at = 2 * pair + i - first;
        if (0 <= at && at < count) data[at] = static_cast<float>(normal[static_cast<size_t>(i)] * deviation);
      }
    }
  });
}

}  // namespace

void initialise(std::span<tensor::Parameter* const> parameters, const InitialiseOptions& options) {
  for (const tensor::Parameter* parameter : parameters) {
    switch (parameter->initial) {
      case tensor::InitialValues::kGiven:
        break;
      case tensor::InitialValues::kOnes:
        parameter->value.fill_(1.0);
        break;
      case tensor::InitialValues::kNormal:
        for (const tensor::SliceValues& part : tensor::slices_of(*parameter)) {
          const uint64_t key = seed_for(options.seed, part.slice.name);
          const at::Tensor values = at::empty(part.values.sizes(), at::kFloat);
          auto* data = values.mutable_data_ptr<float>();
          tensor::for_each_run(part.slice, [&](const tensor::ElementRun& run) {
            fill_normal(key, options.deviation, run.begin_in_whole, run.count, data + run.begin_in_part);
          });
          part.values.copy_(values);
        }
        break;
    }
  }
}

}  // namespace braid::model
