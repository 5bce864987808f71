#include "braid/train/connect.h"

#include <algorithm>
#include <set>
#include <utility>

#include "braid/tensor/parameter.h"

namespace braid::train {

RankGroups groups_of(const mesh::MeshShape& mesh, const RankPlace& place) {
  mesh::validate(mesh, place.world.world_size);
  const mesh::Coordinates coordinates = mesh::coordinates_of(mesh, place.world.rank);
  const auto group = [&](mesh::Axis axis) -> comm::Group {
    const std::vector<int32_t> ranks = mesh::group_of(mesh, place.world.rank, axis);
    return {.axis = std::string(to_string(axis)),
            .ranks = {ranks.begin(), ranks.end()},
            .index = mesh::coordinate(coordinates, axis)};
  };
  RankGroups groups = {
      .coordinates = coordinates,
      .world = comm::group_of_all(place.world, "world"),
      .mp = group(mesh::Axis::kMp),
      .sharding = group(mesh::Axis::kSharding),
      .pipeline = group(mesh::Axis::kPp),
      .dp = group(mesh::Axis::kDp),
      .backend = comm::backend_options(place.world, place.device, place.timeout, place.gloo_interface)};
  // Messages then say where in the pipeline a rank is.
  if (groups.pipeline.size() == groups.world.size()) groups.world.axis = groups.pipeline.axis;
  return groups;
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
  mesh::Coordinates tied_place = groups.coordinates;
  if (plan.tied) tied_place.pp = plan.tied->first_rank;
  const int64_t own_tokens = plan.microbatch().sequence_parallel
                                 ? training.sequence_tokens / plan.strategy.mesh.mp
                                 : training.sequence_tokens;
  for (const int64_t sequences : {training.microbatch_sequences, training.evaluation_sequences}) {
    if (sequences > 0) {
      add({.dtype = dtype, .numel = sequences * own_tokens * plan.model.hidden});
    }
  }
  if (plan.tied) {
    add({.dtype = tensor::main_dtype(dtype), .numel = plan.rank_at(tied_place).tied_numel});
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
