// How long the parts of a stage take, measured before the run for schedules that arrange for it.
#pragma once

#include "braid/comm/communicator.h"
#include "braid/config/model_config.h"
#include "braid/pipeline/executor.h"
#include "braid/train/pipeline_plan.h"

namespace braid::train {

/// Times F, B and W of embedding, one decoder layer and head on a microbatch of random tokens of
/// `activation`'s shape, and a message, on every rank at once, as they will run. Each is the median over
/// ranks of the ranks' medians, so all ranks get the same. The parts are made for it and gone afterwards:
/// what a rank holds at a time is one layer and one end of the model. Collective over `pipeline`.
PartTimes measure_parts(const config::ModelConfig& model, const pipeline::ActivationSpec& activation,
                        comm::Communicator& pipeline);

}  // namespace braid::train
