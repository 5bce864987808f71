// One rank's place in a run, and its connections to the other ranks.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "braid/comm/backend.h"
#include "braid/comm/pipeline_link.h"
#include "braid/comm/world.h"
#include "braid/mesh/mesh.h"
#include "braid/train/run_plan.h"

namespace braid::train {

/// Where this process stands among those of a run.
struct RankPlace {
  comm::World world;
  c10::intrusive_ptr<c10d::Store> store;  ///< shared by the world's ranks
  c10::Device device = c10::Device(c10::kCPU);
  std::chrono::milliseconds timeout{300'000};  ///< of connecting and of every wait for another rank
  std::string gloo_interface = {};             ///< GLOO_SOCKET_IFNAME, or empty
};

/// This rank's groups.
struct RankGroups {
  mesh::Coordinates coordinates;
  comm::Group world;  ///< all ranks, in their order
  comm::Group mp;     ///< one for each axis
  comm::Group sharding;
  comm::Group pipeline;
  comm::Group dp;
  comm::BackendOptions backend;
};

/// Local. Throws ConfigError unless the world has as many ranks as the mesh, and CommError if this machine
/// cannot reach the master.
RankGroups groups_of(const mesh::MeshShape& mesh, const RankPlace& place);

/// The links over which the plan's messages travel, those of evaluations included; null in a pipeline of one
/// rank. Collective over the pipeline. Throws as PipelineLink's constructor.
std::unique_ptr<comm::PipelineLink> connect_link(const RunPlan& plan, const RankPlace& place,
                                                 const RankGroups& groups);

}  // namespace braid::train
