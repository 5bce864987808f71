// What a run's export has beside the weights: the tokenizer and the settings for generation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "braid/checkpoint/hf_directory.h"
#include "braid/config/model_config.h"
#include "braid/config/options.h"
#include "braid/data/tokenizer/tokenizer.h"

namespace braid::cli {

/// The side files of the export of `model`, in memory: their sources may be gone when the run ends.
///   - The tokenizer's files. Those of a model directory (of the tokenizer, or without one of the weights to
///     continue from) as they are; otherwise files by which transformers gives the ids that training saw,
///     where `adds_bos` says whether the documents begin with the BOS id.
///   - generation_config.json: the one that came with the weights if its ids are the model's, else one with
///   the
///     model's ids.
/// `tokenizer` may be null. What the caller should know is added to `notes`. Throws DataError if a file
/// cannot be read.
std::vector<checkpoint::SideFile> export_files(const config::PretrainOptions& options,
                                               const data::Tokenizer* tokenizer,
                                               const config::ModelConfig& model, std::optional<bool> adds_bos,
                                               std::vector<std::string>& notes);

/// Whether the tokenizer of a model directory puts the BOS id before texts, by its tokenizer_config.json.
/// Without one, or if it does not say: no. Throws DataError or ConfigError if the file is damaged.
bool adds_bos(const std::filesystem::path& directory);

}  // namespace braid::cli
