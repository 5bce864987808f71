// For tests of all axes of parallelism: a small training, its numbers, and what two of them must share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "braid/comm/world.h"
#include "braid/config/model_config.h"
#include "braid/config/strategy.h"
#include "braid/pipeline/executor.h"
#include "braid/train/trainer.h"

namespace braid::train::axes {

inline constexpr int64_t kSequences = 2, kTokens = 16;
inline constexpr int kSteps = 3;

/// Sizes of which every tensor is a multiple of the allocator's unit: counts are then equal to the byte.
config::ModelConfig model_config(bool tied);

struct Case {
  config::Strategy strategy;
  int64_t microbatches = 4;  ///< of each data rank
  bool bf16 = false;
  bool tied = false;
  double max_grad_norm = 0.5;
  bool some_labels = false;  ///< the data ranks have labels for different numbers of tokens
};

std::ostream& operator<<(std::ostream& out, const Case& c);

struct Result {
  std::vector<double> losses, norms;
  std::vector<int64_t> tokens;
  double evaluation = 0;
  std::map<std::string, at::Tensor> weights;
};

/// Microbatch number `number` of all data ranks in a step.
pipeline::Microbatch microbatch(int64_t step, int64_t number, bool some_labels);

/// This data rank's.
std::vector<pipeline::Microbatch> microbatches_of(const Trainer& trainer, int64_t step, bool some_labels);

Trainer::Options options_of(const Case& c, const comm::World& world,
                            const c10::intrusive_ptr<c10d::Store>& store);

/// kSteps steps and an evaluation, each rank a thread.
Result run(const Case& c);

void expect_same_bits(const Result& got, const Result& expected);

/// One rank does in a step what all data ranks do together. Each microbatch is computed alike, so the first
/// loss has the same bits, and the first norm differs by the order in which `microbatches` gradients are
/// added in float32 (and, where `norm_bound` says so, by gradients of 16 bits that are scaled before they are
/// rounded). From then on weights differ: Adam divides each gradient by its own magnitude, and so turns a
/// difference of rounding into one of the size of the learning rate where the gradient is rounding error
/// alone; losses move by the square root of such elements' number at most.
void expect_close(const Result& got, const Result& expected, double norm_bound, double loss_bound);

/// The same training on one rank, with as many microbatches as all data ranks have.
Case on_one_rank(const Case& c);

/// Several segments in each stage, and no measured times.
config::Strategy strategy_of(mesh::MeshShape mesh, int32_t stage,
                             std::optional<config::ReduceTiming> timing = {});

}  // namespace braid::train::axes
