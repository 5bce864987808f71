// A rank's weights from and to Hugging Face model directories.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "braid/checkpoint/hf_directory.h"
#include "braid/comm/communicator.h"
#include "braid/config/model_config.h"
#include "braid/tensor/parameter.h"

namespace braid::train {

/// Fills `parameters` from `weights`, each slice from the tensor of its name. Local: every rank reads its own
/// part. Throws DataError if a tensor is missing, damaged, or of another shape.
void load_weights(std::span<tensor::Parameter* const> parameters, const checkpoint::HfWeights& weights);

/// The whole tensors of which the ranks of an mp group hold `parameters`' slices, in the order of the slices:
/// on the group's first rank; on the others nothing. Whole slices are not copied. Collective over `mp`, or
/// local if it is null.
std::vector<tensor::SliceValues> whole_tensors(std::span<tensor::Parameter* const> parameters,
                                               comm::Communicator* mp);

/// Writes the whole model as a directory that transformers' LlamaForCausalLM loads, in place of an earlier
/// one: each rank of `world` its `tensors` as its own shard file, rank 0 the index, config.json and its
/// `side_files` beside them. Every tensor must be among those of one rank, once and whole, and rank 0 must
/// have some. Values in their compute dtype. Collective over `world`, whose ranks must see one file system.
/// Throws DataError if a file cannot be written; an interrupted export is never taken for a whole one.
void export_weights(const std::vector<tensor::SliceValues>& tensors, const std::filesystem::path& directory,
                    const config::ModelConfig& config, std::span<const checkpoint::SideFile> side_files,
                    comm::Communicator& world);

}  // namespace braid::train
