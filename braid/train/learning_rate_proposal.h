// A learning rate for runs that were not given one: the default is PaddleNLP's, meant for fine-tuning.
#pragma once

#include <string>

#include "braid/train/run_plan.h"

namespace braid::train {

/// Floating-point operations of forward and backward of the whole model for a token: 6 for each weight of a
/// matrix, and causal attention.
double flops_per_token(const RunPlan& plan);

/// The peak learning rate that suited models trained from random weights with `flops` operations outside
/// embedding and head: 0.3118 flops^-0.125 (DeepSeek LLM, arXiv:2401.02954, section 3.1), to two digits.
/// Throws InternalError unless flops > 0.
double proposed_learning_rate(double flops);

/// A warning that the run's learning rate is a default, with a proposal for this model and number of tokens.
std::string learning_rate_proposal(const RunPlan& plan);

}  // namespace braid::train
