#include "braid/data/index/dataset.h"

#include <algorithm>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/data/index/input.h"

namespace braid::data {
namespace {

int64_t product(std::string_view name, std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    require<ConfigError>(!__builtin_mul_overflow(result, factor, &result), "the number of ", name,
                         " samples of this run does not fit in 64 bits; lower max_steps or the batch size");
  }
  return result;
}

std::string_view flag_for(Part part) {
  switch (part) {
    case Part::kTrain:
      return "--do_train";
    case Part::kValid:
      return "--do_eval";
    case Part::kTest:
      return "--do_predict";
  }
  throw InternalError(cat("part ", static_cast<int>(part), " does not exist"));
}

// 1234567 as "1,234,567".
std::string grouped(int64_t count) {
  std::string text = std::to_string(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), 1, ',');
  return text;
}

// 1234567, "token" as "1,234,567 tokens".
std::string grouped(int64_t count, std::string_view singular) {
  return cat(grouped(count), " ", singular, count == 1 ? "" : "s");
}

SequenceRange range_of(const IndexedReader& file, std::string_view split, Part part) {
  const auto ranges = split_ranges(parse_split(split), file.sequence_count());
  const SequenceRange range = ranges[static_cast<size_t>(part)];
  require<ConfigError>(range.size() > 0, "split ", split, " leaves no document for ", name_of(part), ": the ",
                       counted(file.sequence_count(), "document"), " of ", file.prefix(),
                       " split into train ", ranges[0].size(), ", valid ", ranges[1].size(), ", test ",
                       ranges[2].size(), "; increase the share of ", name_of(part),
                       " in --split, use more documents, or omit ", flag_for(part));
  return range;
}

int64_t tokens_of(const IndexedReader& file, std::string_view split, Part part) {
  const SequenceRange range = range_of(file, split, part);
  int64_t tokens = 0;
  for (int64_t i = range.begin; i < range.end; ++i) tokens += file.sequence_length(i);
  return tokens;
}

std::vector<int32_t> lengths_of(const IndexedReader& file, SequenceRange range) {
  std::vector<int32_t> lengths(static_cast<size_t>(range.size()));
  for (int64_t i = 0; i < range.size(); ++i) {
    lengths[static_cast<size_t>(i)] = file.sequence_length(range.begin + i);
  }
  return lengths;
}

GptIndex index_of(const IndexedReader& file, SequenceRange range, Part part,
                  const TokenDatasetOptions& options, std::optional<int64_t> samples) {
  const std::vector<int32_t> lengths = lengths_of(file, range);
  require<ConfigError>(std::any_of(lengths.begin(), lengths.end(), [](int32_t length) { return length > 0; }),
                       file.prefix(), ": no tokens in the ", counted(range.size(), "document"), " of ",
                       name_of(part), "; use other data or increase the share of ", name_of(part),
                       " in --split");
  GptIndex index(lengths, {.sequence_length = options.sequence_length,
                           .samples = samples,
                           .seed = options.seed,
                           .last_sample = options.last_sample});
  require<ConfigError>(index.size() > 0, file.prefix(), ": only ", counted(index.tokens_per_epoch(), "token"),
                       " in the ", counted(range.size(), "document"), " of ", name_of(part),
                       ", too few for a sample of ", options.sequence_length,
                       " and its last label; use more data or shorter samples");
  return index;
}

}  // namespace

TokenDataset::TokenDataset(std::span<const IndexedReader> files, std::span<const double> weights,
                           std::string_view split, Part part, const TokenDatasetOptions& options)
    : part_(part), options_(options) {
  require<InternalError>(!files.empty() && files.size() == weights.size(), files.size(), " files and ",
                         weights.size(), " weights");
  require<InternalError>(files.size() == 1 || options.samples, "a mixture needs a number of samples");
  const std::vector<double> shares = normalized_weights(weights);
  if (files.size() > 1) blend_ = build_blend(shares, *options.samples);
  for (size_t i = 0; i < files.size(); ++i) {
    std::optional<int64_t> samples = options.samples;
    if (files.size() > 1) {
      // With many files of different weights, the greedy draw can exceed the 0.5% margin, where Megatron
      // fails.
      samples = std::max(samples_for_weight(shares[i], *options.samples), blend_.drawn[i]);
    }
    const SequenceRange range = range_of(files[i], split, part);
    sources_.push_back({&files[i], shares[i], range, index_of(files[i], range, part, options, samples)});
  }
}

int64_t TokenDataset::part_tokens() const {
  int64_t tokens = 0;
  for (const Source& source : sources_) tokens += source.index.tokens_per_epoch();
  return tokens;
}

int64_t TokenDataset::sample(int64_t index, std::span<int64_t> tokens) const {
  require<InternalError>(0 <= index && index < size(), "sample ", index, " of ", size(), " of ",
                         name_of(part_));
  require<InternalError>(static_cast<int64_t>(tokens.size()) == options_.sequence_length + 1, "room for ",
                         tokens.size(), " tokens, but a sample has ", options_.sequence_length + 1);
  const bool is_mixed = blend_.size() > 0;
  const auto at = static_cast<size_t>(index);
  const Source& source = sources_[is_mixed ? blend_.dataset[at] : 0];
  const IndexedReader& file = *source.file;
  const int64_t first = source.range.begin;
  int64_t filled = 0;
  source.index.for_each_slice(
      is_mixed ? blend_.sample[at] : index,
      [&](int64_t document) { return file.sequence_length(first + document); },
      [&](const Slice& slice) {
        file.read(first + slice.document, slice.offset, slice.count, tokens.data() + filled);
        filled += slice.count;
      });
  std::fill(tokens.begin() + filled, tokens.end(), options_.pad_token);
  return filled - 1;
}

std::vector<std::string> TokenDataset::describe() const {
  std::vector<std::string> lines;
  for (const Source& source : sources_) {
    const GptIndex& index = source.index;
    std::string line = cat(name_of(part_), ": ", grouped(source.range.size(), "document"), ", ",
                           grouped(index.tokens_per_epoch(), "token"), ", ", grouped(index.epochs(), "epoch"),
                           ", ", grouped(index.size(), "sample"), " of ", grouped(options_.sequence_length),
                           " from ", source.file->prefix());
    if (blend_.size() > 0) {
      const auto drawn = blend_.drawn[static_cast<size_t>(&source - sources_.data())];
      line += cat(" (weight ", source.weight, ": ", grouped(drawn), " drawn)");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

SampleCounts sample_counts(const RunLength& run) {
  const auto at_least_one = [](std::string_view name, int64_t value) {
    require<ConfigError>(value >= 1, name, " must be >= 1, got ", value);
  };
  at_least_one("the sequences of a training microbatch", run.train_batch_size);
  at_least_one("the sequences of an evaluation microbatch", run.eval_batch_size);
  at_least_one("the number of data ranks", run.data_world);
  at_least_one("the microbatches of a step", run.accumulation_steps);
  at_least_one("max_steps", run.max_steps);
  at_least_one("eval_steps", run.eval_steps);
  const int64_t validations = run.max_steps / run.eval_steps + 1;
  return {
      .train =
          product("train", {run.train_batch_size, run.data_world, run.accumulation_steps, run.max_steps}),
      .valid = product("valid", {run.eval_batch_size, run.data_world, kEvalBatches, validations}),
      .test = product("test", {run.eval_batch_size, run.data_world, kTestBatches}),
  };
}

Datasets::Datasets(const DatasetsOptions& options) {
  // Validated before the files, which may take a while to check.
  parse_split(options.split);
  std::vector<double> weights;
  for (const WeightedPrefix& input : parse_input(options.input_dir)) {
    files_.emplace_back(input.prefix);
    weights.push_back(input.weight);
  }
  const auto open = [&](std::optional<TokenDataset>& dataset, Part part, std::optional<int64_t> samples) {
    if (!samples) return;
    const bool is_whole = part == Part::kValid && files_.size() == 1 &&
                          tokens_of(files_.front(), options.split, part) <= options.whole_valid_tokens;
    valid_is_whole_ |= is_whole;
    dataset.emplace(
        files_, weights, options.split, part,
        TokenDatasetOptions{.sequence_length = options.sequence_length,
                            .samples = is_whole ? std::nullopt : samples,
                            .seed = options.seed,
                            .last_sample = is_whole ? LastSample::kKeepShort : LastSample::kDrop});
  };
  open(train_, Part::kTrain, options.train_samples);
  open(valid_, Part::kValid, options.valid_samples);
  open(test_, Part::kTest, options.test_samples);
}

void Datasets::check_vocabulary(int64_t vocabulary_size, int32_t threads) const {
  for (const IndexedReader& file : files_) {
    check_fingerprint(file);
    check_token_ids(file, vocabulary_size, threads);
  }
}

std::vector<std::string> Datasets::describe() const {
  std::vector<std::string> lines;
  for (const IndexedReader& file : files_) {
    lines.push_back(cat("data: ", file.prefix(), ": ", grouped(file.sequence_count(), "document"), ", ",
                        grouped(file.token_count(), "token"), " (", name_of(file.token_type()), ")"));
  }
  for (const TokenDataset* dataset : {train(), valid(), test()}) {
    if (dataset == nullptr) continue;
    const auto more = dataset->describe();
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

}  // namespace braid::data
