#include "braid/train/stage_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "braid/base/error.h"
#include "braid/checkpoint/file.h"
#include "braid/config/model_config_json.h"

namespace braid::train {
namespace {

using tensor::SliceValues;

}  // namespace

void load_weights(std::span<tensor::Parameter* const> parameters, const checkpoint::HfWeights& weights) {
  for (const tensor::Parameter* parameter : parameters) {
    for (const SliceValues& one : tensor::slices_of(*parameter)) weights.read_into(one.slice, one.values);
  }
}

std::vector<SliceValues> whole_tensors(std::span<tensor::Parameter* const> parameters,
                                       comm::Communicator* mp) {
  std::vector<SliceValues> result;
  for (const tensor::Parameter* parameter : parameters) {
    for (SliceValues& mine : tensor::slices_of(*parameter)) {
      if (mp == nullptr) {
        result.push_back(std::move(mine));
        continue;
      }
      // The ranks' parts may differ in size: all send as much as the largest has.
      nlohmann::json ranges = nlohmann::json::array();
      for (const tensor::Range& range : mine.slice.part) ranges.push_back({range.begin, range.end});
      std::vector<tensor::TensorSlice> slices;
      int64_t most = 0;
      for (const std::string& text : mp->all_gather_bytes(ranges.dump())) {
        tensor::TensorSlice& slice = slices.emplace_back(mine.slice);
        slice.part.clear();
        for (const auto& range : nlohmann::json::parse(text)) slice.part.push_back({range[0], range[1]});
        most = std::max(most, slice.numel());
      }
      if (mine.slice.is_whole()) {  // on every rank
        if (mp->index() == 0) result.push_back(std::move(mine));
        continue;
      }
      const at::Tensor sent = at::zeros({most}, mine.values.options());
      sent.narrow(0, 0, mine.values.numel()).copy_(mine.values.reshape({-1}));
      const at::Tensor all = mp->all_gather(sent).wait();
      if (mp->index() != 0) continue;
      at::Tensor whole = at::empty(mine.slice.whole, mine.values.options());
      for (size_t rank = 0; rank < slices.size(); ++rank) {
        at::Tensor part = whole;
        for (size_t i = 0; i < slices[rank].part.size(); ++i) {
          const tensor::Range& range = slices[rank].part[i];
          part = part.narrow(static_cast<int64_t>(i), range.begin, range.size());
        }
        part.copy_(
            all[static_cast<int64_t>(rank)].narrow(0, 0, slices[rank].numel()).view(slices[rank].sizes()));
      }
      result.push_back({tensor::whole_tensor(mine.slice.name, mine.slice.whole), whole});
    }
  }
  return result;
}

void export_weights(const std::vector<SliceValues>& mine_all, const std::filesystem::path& directory,
                    const config::ModelConfig& config, std::span<const checkpoint::SideFile> side_files,
                    comm::Communicator& world) {
  nlohmann::json mine = nlohmann::json::array();
  for (const SliceValues& one : mine_all) mine.push_back({one.slice.name, one.values.nbytes()});
  std::vector<std::vector<checkpoint::TensorBytes>> all;
  for (const std::string& text : world.all_gather_bytes(mine.dump())) {
    auto& of_rank = all.emplace_back();
    for (const auto& entry : nlohmann::json::parse(text)) of_rank.push_back({entry[0], entry[1]});
  }
  const std::vector<checkpoint::ShardContents> plan = checkpoint::plan_shards(all);

  if (world.index() == 0) checkpoint::begin_hf_export(directory);
  world.barrier().wait();
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].rank != world.index()) continue;
    std::vector<checkpoint::NamedTensor> tensors;
    for (const auto& entry : plan[i].tensors) {
      for (const SliceValues& one : mine_all) {
        if (one.slice.name == entry.name) tensors.push_back({one.slice.name, one.values});
      }
    }
    checkpoint::write_hf_shard(directory, static_cast<int>(i), static_cast<int>(plan.size()), tensors);
  }
  world.barrier().wait();
  if (world.index() == 0) {
    const at::ScalarType dtype = mine_all.front().values.scalar_type();
    const char* name = dtype == at::kBFloat16 ? "bfloat16" : dtype == at::kHalf ? "float16" : "float32";
    checkpoint::write_text_file(directory / "config.json", config::model_config_to_json(config, name));
    for (const checkpoint::SideFile& file : side_files)
      checkpoint::write_text_file(directory / file.name, file.content);
    checkpoint::write_hf_index(directory, plan);
  }
  world.barrier().wait();
}

}  // namespace braid::train
