#include "braid/train/connect.h"

#include <algorithm>
#include <set>
#include <utility>

#include "braid/tensor/parameter.h"

namespace braid::train {

RankGroups groups_of(const mesh::MeshShape& mesh, const RankPlace& place) {
  mesh::validate(mesh, place.world.world_size);
  const mesh::Coordinates coordinates = mesh::coordinates_of(mesh, place.world.rank);
  const std::vector<int32_t> ranks = mesh::group_of(mesh, place.world.rank, mesh::Axis::kPp);
  return {.coordinates = coordinates,
          .pipeline = {.axis = std::string(to_string(mesh::Axis::kPp)),
                       .ranks = {ranks.begin(), ranks.end()},
                       .index = coordinates.pp},
          .backend = comm::backend_options(place.world, place.device, place.timeout, place.gloo_interface)};
}

std::unique_ptr<comm::PipelineLink> connect_link(const RunPlan& plan, const RankPlace& place,
                                                 const RankGroups& groups) {
  if (groups.pipeline.size() == 1) return nullptr;
  const config::TrainingOptions& training = plan.training;
  const at::ScalarType dtype = dtype_of(training.precision);
  const std::vector<comm::Edge> neighbours = edges_of(plan.compute);
  std::set<comm::Edge> edges(neighbours.begin(), neighbours.end());
  std::vector<comm::MessageFormat> formats;
  const auto add = [&](const comm::MessageFormat& format) {
    if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
  };
  for (const int64_t sequences : {training.microbatch_sequences, training.evaluation_sequences}) {
    if (sequences > 0) {
      add({.dtype = dtype, .numel = sequences * training.sequence_tokens * plan.model.hidden});
    }
  }
  if (plan.tied) {
    add({.dtype = tensor::main_dtype(dtype), .numel = plan.tied->numel()});
    if (!plan.tied->is_local()) {
      edges.insert({.from = plan.tied->first_rank, .to = plan.tied->last_rank});
      edges.insert({.from = plan.tied->last_rank, .to = plan.tied->first_rank});
    }
  }
  return std::make_unique<comm::PipelineLink>(
      place.store, groups.pipeline,
      comm::PipelineLinkOptions{
          .backend = groups.backend, .formats = std::move(formats), .edges = {edges.begin(), edges.end()}});
}

}  // namespace braid::train
