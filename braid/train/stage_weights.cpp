#include "braid/train/stage_weights.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <set>

#include "braid/base/error.h"
#include "braid/checkpoint/file.h"
#include "braid/checkpoint/hf_directory.h"
#include "braid/config/model_config_json.h"

namespace braid::train {
namespace {

struct NamedRow {
  std::string name;
  at::Tensor rows;
};

/// The stages' tensors under their names in files. A tied head has no tensor of its own there.
std::vector<NamedRow> rows_in_files(std::span<const model::Stage> stages, const config::ModelConfig& config) {
  std::vector<NamedRow> all;
  for (const model::Stage& stage : stages) {
    const tensor::Parameter* tied =
        config.tie_word_embeddings && stage.head ? &stage.head->projection().weight() : nullptr;
    for (const tensor::Parameter* parameter : stage.parameters()) {
      if (parameter == tied) continue;
      for (const tensor::NamedRows& rows : parameter->rows) {
        all.push_back({rows.name, parameter->value.narrow(0, rows.begin, rows.end - rows.begin)});
      }
    }
  }
  return all;
}

/// Names of all tensors of the model, to tell what a directory holds beyond them.
std::vector<std::string> names_of_model(const config::ModelConfig& config) {
  std::vector<std::string> names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = cat("model.layers.", layer);
    for (const char* name :
         {".input_layernorm.weight", ".self_attn.q_proj.weight", ".self_attn.k_proj.weight",
          ".self_attn.v_proj.weight", ".self_attn.o_proj.weight", ".post_attention_layernorm.weight",
          ".mlp.gate_proj.weight", ".mlp.up_proj.weight", ".mlp.down_proj.weight"}) {
      names.push_back(prefix + name);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> load_weights(std::span<const model::Stage> stages,
                                      const std::filesystem::path& directory,
                                      const config::ModelConfig& config) {
  const checkpoint::HfWeights weights(directory);
  for (const NamedRow& row : rows_in_files(stages, config)) weights.read_into(row.name, row.rows);
  for (const model::Stage& stage : stages) {
    // Where the embedding is on this rank too, the head shares its memory.
    if (!config.tie_word_embeddings || !stage.head || stages.front().embedding) continue;
    weights.read_into("model.embed_tokens.weight", stage.head->projection().weight().value);
  }
  return weights.report_unused(names_of_model(config));
}

void export_weights(std::span<const model::Stage> stages, const std::filesystem::path& directory,
                    const config::ModelConfig& config, comm::Communicator& pipeline) {
  const std::vector<NamedRow> rows = rows_in_files(stages, config);
  nlohmann::json mine = nlohmann::json::array();
  for (const NamedRow& row : rows) mine.push_back({row.name, row.rows.nbytes()});
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
      for (const NamedRow& row : rows) {
        if (row.name == entry.name) tensors.push_back({row.name, row.rows});
      }
    }
    checkpoint::write_hf_shard(directory, static_cast<int>(i), static_cast<int>(plan.size()), tensors);
  }
  pipeline.barrier().wait();
  if (pipeline.index() == 0) {
    const bool bf16 = stages.front().parameters().front()->value.scalar_type() == at::kBFloat16;
    checkpoint::write_text_file(directory / "config.json",
                                config::model_config_to_json(config, bf16 ? "bfloat16" : "float32"));
    checkpoint::write_hf_index(directory, plan);
  }
  pipeline.barrier().wait();
}

}  // namespace braid::train
