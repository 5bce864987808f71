// A rank's weights from and to Hugging Face model directories.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "braid/comm/communicator.h"
#include "braid/config/model_config.h"
#include "braid/model/llama.h"

namespace braid::train {

/// Fills the parameters of `stages`, which one rank holds, from the safetensors of `directory`. Returns the
/// directory's tensors that this model has no place for. Local: every rank reads its own part. Throws
/// DataError if a tensor is missing, damaged, or of another shape.
std::vector<std::string> load_weights(std::span<const model::Stage> stages,
                                      const std::filesystem::path& directory,
                                      const config::ModelConfig& config);

/// Writes the whole model as a directory that transformers' LlamaForCausalLM loads: each rank of `pipeline`
/// its stages as its own shard file, rank 0 the index and config.json beside them. Values in their compute
/// dtype. Collective over `pipeline`, whose ranks must see one file system. Throws DataError if a file cannot
/// be written; an interrupted export is never taken for a whole one.
void export_weights(std::span<const model::Stage> stages, const std::filesystem::path& directory,
                    const config::ModelConfig& config, comm::Communicator& pipeline);

}  // namespace braid::train
