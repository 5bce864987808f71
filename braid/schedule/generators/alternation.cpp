#include "braid/schedule/generators/alternation.h"

#include <algorithm>
#include <string>

#include "braid/base/error.h"

namespace braid::schedule {
namespace {

using Sizes = AlternationSizes;

// F, I, W and B = I + W are the times of one stage; M_B and M_W what it keeps of a microbatch from F to I,
// and from I to W. All but the interleaved schedules take any m >= 1.
constexpr AlternatingSchedule kSchedules[] = {
    // F0 .. F(m-1) of every chunk from the first to the last, then B0 .. B(m-1) of every chunk from the last
    // to the first: backwards in ascending order, so that gradients add up in the order of the microbatches.
    // Bubble (p-1 + (v-1) max(p-m, 0)) (F+B); peak live activations vm. Source: Huang et al. 2019,
    // arXiv:1811.06965 (GPipe), with the backwards not reversed.
    {.name = "FThenB",
     .summary = "all forwards, then all backwards",
     .rule = [](const Sizes& s) -> Alternation { return {.warm_up = s.v * s.m, .fused = s.v * s.m}; }},

    // Later ranks start later, so they need fewer forwards in flight: min(p-1-r, m). Bubble (p-1)(F+B); peak
    // live activations on rank r min(p-r, m). Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1.
    {.name = "1F1B",
     .summary = "one forward, one backward",
     .for_more_chunks = "VPP",
     .rule = [](const Sizes& s) -> Alternation { return {.warm_up = s.p - 1 - s.r, .fused = s.m}; }},

    // 1F1B with more forwards in flight, so that messages have time to arrive. Bubble as 1F1B's if messages
    // take no time; if they do, the second warm-up forward per hop hides a message and its answer. Peak live
    // activations on rank r min(2(p-r)-1, m). Source: the Eager-1F1B mode of PaddlePaddle; Zhuang et al.
    // 2022, arXiv:2211.05322 (eager-1F1B).
    {.name = "Eager1F1B",
     .summary = "1F1B with forwards in flight, to hide messages",
     .for_more_chunks = "VPP",
     .rule = [](const Sizes& s) -> Alternation { return {.warm_up = 2 * (s.p - 1 - s.r), .fused = s.m}; }},

    // Interleaved 1F1B, for a shorter bubble. The first backward is the last chunk's; each hop to the last
    // rank costs a forward there and one back. Bubble (p-1 + (v-1) max(p-m, 0)) (F+B), where 1F1B with as
    // many layers per rank has v(p-1)(F+B); peak live activations on rank r min(2(p-r)-1 + (v-1)g, vm).
    // Source: Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2, for m a multiple of p; PyTorch's
    // Interleaved1F1B for the other rounds.
    {.name = "VPP",
     .summary = "1F1B over several chunks per rank",
     .in_rounds = true,
     .rule = [](const Sizes& s) -> Alternation {
       return {.warm_up = 2 * (s.p - 1 - s.r) + (s.v - 1) * s.g, .fused = s.v * s.m};
     }},

    // 1F1B that computes input gradients, which the previous rank waits for, immediately, and weight
    // gradients r microbatches behind: every rank keeps p microbatches, p - r waiting for I and r waiting for
    // W. Bubble (p-1)(F+I) - (min(m,p)-1)W, which is (p-1)(F+I-W) from m = p on, if W is not longer than F.
    // Peak memory on rank r (p-r) M_B + r M_W for m >= p, hence min(p, m) live activations on every rank.
    // Source: Qi et al. 2023, arXiv:2401.10241, section 2.1.
    {.name = "ZBH1",
     .summary = "1F1B with weight gradients deferred, in the same memory",
     .for_more_chunks = "InterleavedZB",
     .rule = [](const Sizes& s) -> Alternation { return {.warm_up = s.p - 1 - s.r, .lag = s.r}; }},

    // ZBH1 with backwards split only where another rank waits for the input gradient alone: all on the last
    // rank, the last min(p, m) on the ranks between, none on the first, which is the last too if it is the
    // only one. Forwards, and the weight gradients of split backwards, are where ZBH1 has them; for m <= p it
    // takes as long. Bubble (p-1)(I+max(F,W)) - W for m > p >= 2. Peak memory as ZBH1's.
    //
    // Source: the ZBH1 mode of PaddlePaddle, from which it must differ. There the first r microbatches of
    // rank r are split, the rest are fused on every rank, and the W of the first come last of all, so weight
    // gradients do not add up in ascending order. Its bubble is (p-1)I + max((p-2)F, (p-1)(F-W)): less by
    // (p-2)(W-F) if W >= F, by min(F-W, (p-2)W) if not; the same for p = 2 and for F = W.
    //
    // Why no ascending order reaches it that fuses some B(j), j < m-p, on all ranks and keeps p activations
    // on rank 0. The last rank ends B(j) no earlier than (p-1)F + (j+1)(F+I+W), as W(0) .. W(j-1) are done
    // too, and rank 0 (p-1)(I+W) later. Until then rank 0 has computed no more than j+p forwards and j+1
    // backwards, so it has idled for (p-1)(I+W). Rank 0 cannot start F(m-1) before its B(m-p-1) is done; then
    // (p-1)(F+I) pass until the gradient of m-1 is back, with only the backwards of p-1 other microbatches to
    // fill them: it idles for another (p-1)(F-W). So the bubble is at least (p-1)(I+max(F,W)). That the last
    // rank does not fuse takes W off that.
    {.name = "ZBH1-fused",
     .summary = "ZBH1 with few split backwards",
     .for_more_chunks = "InterleavedZB",
     .rule = [](const Sizes& s) -> Alternation {
       const int32_t fused = s.r == 0 ? s.m : s.r == s.p - 1 ? 0 : std::max(s.m - s.p, 0);
       return {.warm_up = s.p - 1 - s.r, .fused = fused, .lag = s.r};
     }},

    // ZBH1 with twice the forwards in flight and weight gradients 2r microbatches behind. Bubble (p-1)(F+I) -
    // (min(m,2p-1)-1)W, which is (p-1)(F+I-2W) from m = 2p-1 on, if W is not longer than F, nor 2W than F+I.
    // Peak memory on rank r (2(p-r)-1) M_B + 2r M_W for m >= 2p-1, hence min(2p-1, m) live activations on
    // every rank. The ranks end one after another as they began: the bubble is each rank's own, and is kept
    // only where updates do not wait for the norm of all ranks (see step_interval). Source: Qi et al. 2023,
    // arXiv:2401.10241, section 2.2.
    {.name = "ZBH2",
     .summary = "ZBH1 with hardly any bubble, in twice the memory",
     .for_more_chunks = "InterleavedZB",
     .rule = [](const Sizes& s) -> Alternation { return {.warm_up = 2 * (s.p - 1 - s.r), .lag = 2 * s.r}; }},

    // ZBH1 over several chunks per rank: half of VPP's warm-up is enough, as no rank waits for the weight
    // gradients, r behind. Bubble for m >= p (p-1)(F+I-W), if W is not longer than F. Peak live activations
    // min(p + (v-1)g, vm) on every rank, where an activation lives until its W: vp where p divides m. Source:
    // Qi et al. 2023, arXiv:2401.10241, section 2, on the stages of arXiv:2104.04473; the order is that of
    // PyTorch's ScheduleInterleavedZeroBubble.
    {.name = "InterleavedZB",
     .summary = "ZBH1 over several chunks per rank",
     .in_rounds = true,
     .rule = [](const Sizes& s) -> Alternation {
       return {.warm_up = s.p - 1 - s.r + (s.v - 1) * s.g, .lag = s.r};
     }},
};

// The k-th forward of a rank, or its k-th backward.
Action turn(const Sizes& sizes, Op op, int32_t k) {
  const int32_t chunk = k / sizes.g % sizes.v;
  return {.op = op,
          .chunk = op == Op::kForward ? chunk : sizes.v - 1 - chunk,
          .microbatch = k / (sizes.g * sizes.v) * sizes.g + k % sizes.g};
}

std::vector<Action> list_of(const Sizes& sizes, const Alternation& rule) {
  const int32_t total = sizes.v * sizes.m;
  std::vector<Action> order;
  order.reserve(3 * static_cast<size_t>(total));
  const auto append = [&](Op op, int32_t k) { order.push_back(turn(sizes, op, k)); };
  int32_t forwards = 0;
  int32_t weights = 0;
  while (forwards < std::min(rule.warm_up, total)) append(Op::kForward, forwards++);
  for (int32_t k = 0; k < total; ++k) {
    if (forwards < total) append(Op::kForward, forwards++);
    if (k < rule.fused) {
      append(Op::kBackward, k);
      ++weights;
      continue;
    }
    append(Op::kBackwardInput, k);
    if (k + 1 - weights > rule.lag) append(Op::kBackwardWeight, weights++);
  }
  while (weights < total) append(Op::kBackwardWeight, weights++);
  return order;
}

bool has_equal_rounds(int32_t ranks, int32_t microbatches) {
  return microbatches % std::max(1, microbatches / ranks) == 0;
}

int32_t microbatches_per_round(const PipelineShape& shape, std::string_view name) {
  const int32_t rounds = std::max(1, shape.microbatches / shape.ranks);
  if (shape.microbatches % rounds == 0) return shape.microbatches / rounds;
  // Multiples of the ranks always do, so both searches end.
  int32_t lower = shape.microbatches - 1;
  while (!has_equal_rounds(shape.ranks, lower)) --lower;
  int32_t higher = shape.microbatches + 1;
  while (!has_equal_rounds(shape.ranks, higher)) ++higher;
  throw ConfigError(cat(name, " on ", shape.ranks, " ranks cannot run ", shape.microbatches,
                        " microbatches in ", rounds, " equal rounds: take ", lower, " or ", higher,
                        " microbatches"));
}

}  // namespace

std::span<const AlternatingSchedule> alternating_schedules() { return kSchedules; }

Schedule alternating(const AlternatingSchedule& row, const PipelineShape& shape) {
  validate(shape);
  require<ConfigError>(shape.chunks_per_rank == 1 || row.for_more_chunks.empty(), row.name,
                       " runs with 1 chunk per rank, got ", shape.chunks_per_rank, ": use ",
                       row.for_more_chunks, " for more");
  Sizes sizes = {.p = shape.ranks, .v = shape.chunks_per_rank, .m = shape.microbatches};
  sizes.g = row.in_rounds ? microbatches_per_round(shape, row.name) : sizes.m;
  Schedule schedule = {.name = std::string(row.name), .shape = shape};
  schedule.ranks.reserve(static_cast<size_t>(shape.ranks));
  for (; sizes.r < sizes.p; ++sizes.r) schedule.ranks.push_back(list_of(sizes, row.rule(sizes)));
  return schedule;
}

}  // namespace braid::schedule
