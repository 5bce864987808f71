#include "braid/train/stage_weights.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "braid/base/error.h"
#include "braid/checkpoint/file.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/config/model_config_json.h"

namespace braid::train {
namespace {

using tensor::SliceValues;

/// Names of all tensors of the model, to tell what a directory holds beyond them. A tied head may stand in
/// files, though it is no tensor of its own here.
std::vector<std::string> names_of_model(std::span<const layers::LayerSpec> layers) {
  std::vector<std::string> names = {"lm_head.weight"};
  for (const layers::LayerSpec& spec : layers) {
    const std::unique_ptr<layers::Layer> layer = layers::make_without_data(spec);
    for (const tensor::Parameter* parameter : layers::parameters_of(*layer)) {
      for (const tensor::TensorSlice& slice : parameter->slices) names.push_back(slice.name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> load_weights(std::span<tensor::Parameter* const> parameters,
                                      const std::filesystem::path& directory,
                                      std::span<const layers::LayerSpec> layers) {
  const checkpoint::HfWeights weights(directory);
  for (const tensor::Parameter* parameter : parameters) {
    for (const SliceValues& one : tensor::slices_of(*parameter)) weights.read_into(one.slice, one.values);
  }
  return weights.report_unused(names_of_model(layers));
}

void export_weights(std::span<tensor::Parameter* const> parameters, const std::filesystem::path& directory,
                    const config::ModelConfig& config, comm::Communicator& pipeline) {
  std::vector<SliceValues> mine_all;
  for (const tensor::Parameter* parameter : parameters) {
    for (SliceValues& one : tensor::slices_of(*parameter)) {
      require<InternalError>(one.slice.is_whole(), "only whole tensors can be exported, not ",
                             to_string(one.slice));
      mine_all.push_back(std::move(one));
    }
  }
  nlohmann::json mine = nlohmann::json::array();
  for (const SliceValues& one : mine_all) mine.push_back({one.slice.name, one.values.nbytes()});
  std::vector<std::vector<checkpoint::TensorBytes>> all;
  for (const std::string& text : pipeline.all_gather_bytes(mine.dump())) {
    auto& of_rank = all.emplace_back();
    for (const auto& entry : nlohmann::json::parse(text)) of_rank.push_back({entry[0], entry[1]});
  }
  const std::vector<checkpoint::ShardContents> plan = checkpoint::plan_shards(all);

  if (pipeline.index() == 0) checkpoint::begin_hf_export(directory);
  pipeline.barrier().wait();
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].rank != pipeline.index()) continue;
    std::vector<checkpoint::NamedTensor> tensors;
    for (const auto& entry : plan[i].tensors) {
      for (const SliceValues& one : mine_all) {
        if (one.slice.name == entry.name) tensors.push_back({one.slice.name, one.values});
      }
    }
    checkpoint::write_hf_shard(directory, static_cast<int>(i), static_cast<int>(plan.size()), tensors);
  }
  pipeline.barrier().wait();
  if (pipeline.index() == 0) {
    const at::ScalarType dtype = parameters.front()->value.scalar_type();
    const char* name = dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
    checkpoint::write_text_file(directory / "config.json", config::model_config_to_json(config, name));
    checkpoint::write_hf_index(directory, plan);
  }
  pipeline.barrier().wait();
}

}  // namespace braid::train
