#include "braid/train/recompute_choice.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/schedule/memory.h"

namespace braid::train {
namespace {

using config::Recomputation;
using layers::LayerSpec;

constexpr int64_t kMostCombinations = 1'000'000;
constexpr int kTriedLimits = 5;  // of a schedule that is made for a limit

/// One way to recompute a stage's decoder layers.
struct Option {
  double flops = 0;                      ///< recomputed per token
  int64_t forward_to_backward = 0;       ///< bytes that the stage keeps of a microbatch
  std::vector<Recomputation> of_blocks;  ///< of the stage
};

struct BlockCost {
  double flops = 0;
  int64_t bytes = 0;
};

BlockCost cost_of(const std::vector<LayerSpec>& layers, const cost::MicrobatchShape& shape) {
  BlockCost sum;
  for (const LayerSpec& layer : layers) {
    sum.flops += layers::work_of(layer, shape).recomputed_flops;
    sum.bytes += layer.saved_bytes(shape).forward_to_backward;
  }
  return sum;
}

/// A stage's options, none of them both dearer and larger than another: ascending FLOPs, descending bytes.
/// What is kept from B to W is the same for all.
std::vector<Option> options_of(const RunPlan& base, const std::vector<Block>& blocks, int32_t stage) {
  const cost::MicrobatchShape shape = base.microbatch();
  const tensor::Range& range = base.stage_layers[static_cast<size_t>(stage)];
  std::vector<Option> options = {
      {.forward_to_backward = base.memory_bytes.of(stage).forward_to_backward, .of_blocks = {}}};
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (block.layers.begin < range.begin || block.layers.begin >= range.end) continue;
    std::vector<Recomputation> granularities = {Recomputation::kNone};
    if (base.recompute[i] == Recomputation::kAuto) granularities = granularities_of(base.model.layers, block);
    std::vector<Option> longer;
    const BlockCost kept = cost_of(recompute_block(base.model, block, Recomputation::kNone), shape);
    for (const Recomputation granularity : granularities) {
      const BlockCost cost = cost_of(recompute_block(base.model, block, granularity), shape);
      for (const Option& shorter : options) {
        Option& option = longer.emplace_back(shorter);
        option.flops += cost.flops;
        option.forward_to_backward += cost.bytes - kept.bytes;
        option.of_blocks.push_back(granularity);
      }
    }
    std::ranges::stable_sort(longer, [](const Option& a, const Option& b) {
      return std::pair(a.flops, a.forward_to_backward) < std::pair(b.flops, b.forward_to_backward);
    });
    options.clear();
    for (Option& option : longer) {
      if (options.empty() || option.forward_to_backward < options.back().forward_to_backward)
        options.push_back(std::move(option));
    }
  }
  return options;
}

/// How many microbatches each chunk of a rank keeps at a time: from F to B, then from B to W.
using Counts = std::vector<int64_t>;

/// All that there are after an action of `rank`, but for those below another.
std::vector<Counts> counts_of(const schedule::Schedule& compute, int32_t rank) {
  const auto chunks = static_cast<size_t>(compute.shape.chunks_per_rank);
  std::set<Counts> all;
  Counts now(2 * chunks, 0);
  for (const schedule::Action& action : compute.ranks[static_cast<size_t>(rank)]) {
    const auto chunk = static_cast<size_t>(action.chunk);
    if (action.op == schedule::Op::kForward) {
      ++now[chunk];
    } else if (action.op == schedule::Op::kBackwardWeight) {
      --now[chunks + chunk];
    } else {
      --now[chunk];
      if (action.op == schedule::Op::kBackwardInput) ++now[chunks + chunk];
    }
    all.insert(now);
  }
  std::vector<Counts> highest;
  for (const Counts& counts : all) {
    const bool is_below = std::ranges::any_of(all, [&](const Counts& other) {
      return &other != &counts &&
             std::ranges::equal(counts, other, [](int64_t mine, int64_t its) { return mine <= its; });
    });
    if (!is_below) highest.push_back(counts);
  }
  return highest;
}

/// Chooses one option for each chunk of a rank.
class RankChoice {
 public:
  RankChoice(const RunPlan& base, const std::vector<Block>& blocks, int32_t rank)
      : counts_(counts_of(base.compute, rank)) {
    for (int32_t chunk = 0; chunk < base.compute.shape.chunks_per_rank; ++chunk) {
      const int32_t stage = schedule::stage_of(base.compute, {.rank = rank, .chunk = chunk});
      stages_.push_back(stage);
      options_.push_back(options_of(base, blocks, stage));
      bytes_.push_back(options_.back().back().forward_to_backward);
      weight_bytes_.push_back(base.memory_bytes.of(stage).backward_to_weight);
    }
  }

  /// The most that the rank keeps with all that can be recomputed.
  int64_t least() const { return peak(); }

  /// The options chosen, the cheapest that keep `limit`, which is not below least(); of each chunk.
  std::vector<size_t> choose(int64_t limit) {
    limit_ = limit;
    chosen_.assign(options_.size(), 0);
    best_.reset();
    tried_ = 0;
    choose_from(0, 0);
    return best_->chosen;
  }

  const std::vector<int32_t>& stages() const { return stages_; }
  const std::vector<Option>& options(size_t chunk) const { return options_[chunk]; }

 private:
  struct Best {
    double flops = 0;
    std::vector<size_t> chosen;
  };

  int64_t peak() const {
    int64_t most = 0;
    for (const Counts& counts : counts_) {
      int64_t sum = 0;
      for (size_t chunk = 0; chunk < bytes_.size(); ++chunk)
        sum += counts[chunk] * bytes_[chunk] + counts[bytes_.size() + chunk] * weight_bytes_[chunk];
      most = std::max(most, sum);
    }
    return most;
  }

  /// The chunks before `chunk` have their options, those from it on keep the least.
  void choose_from(size_t chunk, double flops) {
    if (chunk == options_.size()) {
      best_ = {.flops = flops, .chosen = chosen_};
      return;
    }
    const int64_t least = bytes_[chunk];
    const std::vector<Option>& options = options_[chunk];
    for (size_t i = 0; i < options.size(); ++i) {
      const bool is_dearer = best_ && flops + options[i].flops >= best_->flops;
      if (is_dearer || (best_ && tried_ > kMostCombinations)) break;
      ++tried_;
      bytes_[chunk] = options[i].forward_to_backward;
      if (peak() > limit_) continue;
      chosen_[chunk] = i;
      choose_from(chunk + 1, flops + options[i].flops);
    }
    bytes_[chunk] = least;
  }

  std::vector<Counts> counts_;
  std::vector<int32_t> stages_;  // by chunk, as all that follow
  std::vector<std::vector<Option>> options_;
  std::vector<int64_t> bytes_, weight_bytes_;  // from F to B as far as chosen, and from B to W
  std::vector<size_t> chosen_;
  int64_t limit_ = 0;
  int64_t tried_ = 0;
  std::optional<Best> best_;
};

/// Chooses for all ranks of a plan, as often as asked.
class Choice {
 public:
  explicit Choice(const RunPlan& base) : base_(base) {
    require<ConfigError>(base.kinds_of_unknown_memory.empty(),
                         "recomputation auto needs to know what layers keep, but those of kind ",
                         base.kinds_of_unknown_memory.empty() ? "" : base.kinds_of_unknown_memory.front(),
                         " do not state it (LayerSpec::saved_bytes)");
    const std::vector<Block> blocks = blocks_of(base.model.layers);
    for (int32_t rank = 0; rank < base.compute.shape.ranks; ++rank) ranks_.emplace_back(base, blocks, rank);
  }

  /// The rank that keeps the most with all that can be recomputed.
  int64_t fullest_rank() const {
    return std::ranges::max_element(ranks_, {}, &RankChoice::least) - ranks_.begin();
  }
  /// What it then keeps: the least limit.
  int64_t least() const { return ranks_[static_cast<size_t>(fullest_rank())].least(); }

  /// Ranks that cannot keep `limit` recompute all that they can.
  std::vector<Recomputation> choose(int64_t limit) {
    std::vector<std::vector<Recomputation>> of_stages(static_cast<size_t>(base_.stages()));
    for (RankChoice& rank : ranks_) {
      const std::vector<size_t> chosen = rank.choose(std::max(limit, rank.least()));
      for (size_t chunk = 0; chunk < chosen.size(); ++chunk) {
        of_stages[static_cast<size_t>(rank.stages()[chunk])] = rank.options(chunk)[chosen[chunk]].of_blocks;
      }
    }
    std::vector<Recomputation> result;
    for (const std::vector<Recomputation>& of_stage : of_stages)
      result.insert(result.end(), of_stage.begin(), of_stage.end());
    return result;
  }

 private:
  const RunPlan& base_;
  std::vector<RankChoice> ranks_;
};

}  // namespace

layers::ModelSpec with_blocks_in_one_stage(layers::ModelSpec model) {
  for (const Block& block : blocks_of(model.layers)) {
    for (int64_t i = block.layers.begin + 1; i < block.layers.end; ++i)
      model.layers[static_cast<size_t>(i)].may_begin_stage = false;
  }
  return model;
}

std::vector<Recomputation> least_recomputation(const RunPlan& base, int64_t limit) {
  Choice choice(base);
  const int64_t least = choice.least();
  require<ConfigError>(least <= limit, "with all that can be recomputed, ", base.compute.name,
                       " still keeps ", least, " bytes on rank ", choice.fullest_rank(),
                       ", more than the limit of ", limit, ": the least limit is ", least,
                       ", or less with a schedule that keeps less or, if that splits the backward pass, with "
                       "early_weight_gradients");
  return choice.choose(limit);
}

std::vector<std::vector<Recomputation>> recomputation_candidates(const RunPlan& base, int64_t limit) {
  Choice choice(base);
  const std::vector<int64_t> peaks = schedule::peak_memory(base.compute, base.memory_bytes);
  const int64_t peak = *std::ranges::max_element(peaks);
  std::vector<std::vector<Recomputation>> result;
  for (int i = 0; i <= kTriedLimits; ++i) {
    const int64_t tried = std::max(limit, peak - (peak - limit) * i / kTriedLimits);
    std::vector<Recomputation> of_blocks = choice.choose(tried);
    if (result.empty() || result.back() != of_blocks) result.push_back(std::move(of_blocks));
    if (tried == limit || tried < choice.least()) break;
  }
  if (peak > limit) result.push_back(choice.choose(0));  // all that there is
  return result;
}

}  // namespace braid::train
