// How long the parts of a stage take, measured before the run for schedules that arrange for it.
#pragma once

#include <span>

#include "braid/comm/communicator.h"
#include "braid/pipeline/executor.h"
#include "braid/train/run_plan.h"

namespace braid::train {

/// Times F, B and W of a layer of each kind on a microbatch of `activation`'s shape, and a message, on every
/// rank at once, as they will run. Each is the median over ranks of the ranks' medians, so all ranks get the
/// same. The layers are made for it and gone afterwards: a rank holds one at a time. The first layer gets the
/// microbatch as its input. Collective over `world`, and over the mp group of `place`.
PartTimes measure_parts(std::span<const layers::LayerSpec> layers, const pipeline::Microbatch& microbatch,
                        const pipeline::ActivationSpec& activation, const layers::Placement& place,
                        comm::Communicator& world);

}  // namespace braid::train
