#include "braid/config/config_words.h"

#include <algorithm>
#include <array>

#include "braid/base/text.h"
#include "braid/config/error_list.h"

namespace braid::config {
namespace {

constexpr std::string_view kPipeline = "pipeline_parallel_config";
constexpr std::string_view kTensor = "tensor_parallel_config";
constexpr std::string_view kSharding = "sharding_parallel_config";

constexpr std::string_view kOn = "it is always on";
constexpr std::string_view kFlat = "it is always on: weights, gradients and states are flat buffers";
constexpr std::string_view kReduceOverlaps =
    "it is always on: a buffer's reduction starts as soon as its gradients are complete";
constexpr std::string_view kGatherOverlaps =
    "it is always on: a buffer's weights are gathered while those before it compute";
constexpr std::string_view kSynced = "parameters held by all ranks of the axis stay equal to the last bit";
constexpr std::string_view kBuffersStay =
    "gradient buffers live as long as the run, so that steps allocate nothing";
constexpr std::string_view kScaleFirst =
    "the loss gradient is divided by the number of labels before the backward pass";

using Effect = ConfigWord::Effect;

constexpr std::array kWords = {
    ConfigWord{kPipeline, "enable_send_recv_overlap", Effect::kSwitchesOverlap, ""},
    ConfigWord{kPipeline, "enable_overlap_p2p_comm", Effect::kSwitchesOverlap, ""},
    ConfigWord{kPipeline, "disable_p2p_cache_shape", Effect::kAlwaysOn, kOn},
    ConfigWord{kPipeline, "disable_partial_send_recv", Effect::kAlwaysOn, kOn},
    ConfigWord{kPipeline, "disable_batch_p2p_comm", Effect::kAlwaysOn, kOn},
    ConfigWord{kPipeline, "enable_dp_comm_overlap", Effect::kAlwaysOn, kReduceOverlaps},
    ConfigWord{kPipeline, "enable_sharding_comm_overlap", Effect::kAlwaysOn, kReduceOverlaps},
    ConfigWord{kPipeline, "enable_split_backward", Effect::kAlwaysOn,
               "the schedule decides whether it splits the backward, as ZBH1 does"},
    ConfigWord{kPipeline, "best_unbalanced_scheduler", Effect::kAlwaysOn,
               "layers are divided by cost, and --pipeline_schedule_mode auto arranges for times"},
    ConfigWord{kPipeline, "enable_timer", Effect::kAlwaysOn, "use --profile_steps"},
    ConfigWord{kPipeline, "enable_delay_scale_loss", Effect::kAlwaysOn, kScaleFirst},
    ConfigWord{kPipeline, "enable_release_grads", Effect::kAlwaysOn, kBuffersStay},
    ConfigWord{kPipeline, "enable_clear_every_step_cache", Effect::kAlwaysOn,
               "the allocator's cache is what keeps steps from allocating"},
    ConfigWord{kPipeline, "use_dualpipev", Effect::kRejected, "use --pipeline_schedule_mode DualPipeV"},

    ConfigWord{
        kTensor, "enable_mp_async_allreduce", Effect::kAlwaysOn,
        "it is always on: the gradient of a layer's input is reduced while that of its weights is computed"},
    ConfigWord{kTensor, "enable_mp_skip_c_identity", Effect::kAlwaysOn, kOn},
    ConfigWord{kTensor, "enable_mp_fused_linear_param_grad_add", Effect::kAlwaysOn, kOn},
    ConfigWord{kTensor, "enable_sp_async_reduce_scatter", Effect::kAlwaysOn, kOn},
    ConfigWord{kTensor, "replace_with_c_embedding", Effect::kAlwaysOn,
               "it is always on: the rows of the embedding are divided over the ranks"},
    ConfigWord{kTensor, "replace_with_parallel_cross_entropy", Effect::kAlwaysOn,
               "it is always on: the logits are divided over the ranks"},
    ConfigWord{kTensor, "sync_param", Effect::kAlwaysOn, kSynced},
    ConfigWord{kTensor, "sync_grad", Effect::kAlwaysOn, kSynced},
    ConfigWord{kTensor, "sync_moment", Effect::kAlwaysOn, kSynced},
    ConfigWord{kTensor, "enable_delay_scale_loss", Effect::kAlwaysOn, kScaleFirst},

    ConfigWord{kSharding, "enable_stage1_tensor_fusion", Effect::kAlwaysOn, kFlat},
    ConfigWord{kSharding, "split_param", Effect::kAlwaysOn, kFlat},
    ConfigWord{kSharding, "enable_stage1_overlap", Effect::kAlwaysOn, kReduceOverlaps},
    ConfigWord{kSharding, "enable_stage2_overlap", Effect::kAlwaysOn, kReduceOverlaps},
    ConfigWord{kSharding, "disable_stage1_reduce_avg", Effect::kAlwaysOn,
               "it is always on: gradients are summed, and divided by the number of labels beforehand"},
    ConfigWord{kSharding, "enable_stage1_broadcast_overlap", Effect::kAlwaysOn, kGatherOverlaps},
    ConfigWord{kSharding, "enable_stage1_allgather_overlap", Effect::kAlwaysOn, kGatherOverlaps},
    ConfigWord{kSharding, "enable_fuse_optimizer_states", Effect::kAlwaysOn, kFlat},
    ConfigWord{kSharding, "enable_tensor_fusion", Effect::kAlwaysOn, kFlat},
    ConfigWord{kSharding, "enable_overlap", Effect::kAlwaysOn, kReduceOverlaps},
    ConfigWord{kSharding, "enable_release_grads", Effect::kAlwaysOn, kBuffersStay},
};

// Applies the words in `text`, the value of `option`.
void apply_words(std::string_view option, const std::string& text, PretrainOptions& options,
                 std::vector<NoEffect>& unused, ErrorList& errors) {
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    const std::string label = cat("--", option, " ", word);
    const auto* found = std::find_if(kWords.begin(), kWords.end(), [&](const ConfigWord& known) {
      return known.option == option && known.word == word;
    });
    if (found == kWords.end()) {
      std::vector<std::string> known;
      for (const ConfigWord& other : kWords) {
        if (other.option == option) known.emplace_back(other.word);
      }
      const auto close = nearest(word, known);
      errors.check(false, label, ": there is no such word; ",
                   close ? cat("did you mean ", *close, "?") : cat("use ", accepted_words(option)));
    } else if (found->effect == Effect::kRejected) {
      errors.check(false, label, ": this version of braid does not support it: ", found->reason);
    } else if (found->effect == Effect::kSwitchesOverlap) {
      options.enable_send_recv_overlap = true;
    } else {
      unused.push_back({.label = label, .reason = std::string(found->reason)});
    }
  }
}

}  // namespace

std::span<const ConfigWord> config_words() { return kWords; }

std::string accepted_words(std::string_view option) {
  std::string text;
  for (const ConfigWord& known : kWords) {
    if (known.option != option || known.effect == Effect::kRejected) continue;
    text += cat(text.empty() ? "" : ", ", known.word);
  }
  return text;
}

void apply_config_words(PretrainOptions& options, std::vector<NoEffect>& unused) {
  ErrorList errors;
  apply_words(kPipeline, options.pipeline_parallel_config, options, unused, errors);
  apply_words(kTensor, options.tensor_parallel_config, options, unused, errors);
  apply_words(kSharding, options.sharding_parallel_config, options, unused, errors);
  errors.throw_if_any();
}

}  // namespace braid::config
