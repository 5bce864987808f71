#include "braid/train/microbatch_source.h"

#include <ATen/ATen.h>

#include "braid/base/random.h"
#include "braid/data/index/batch.h"
#include "braid/data/index/dataset.h"
#include "braid/data/index/text_bytes.h"

namespace braid::train {
namespace {

class TokenFiles final : public MicrobatchSource {
 public:
  explicit TokenFiles(const SourceOptions& options)
      : options_(options), datasets_(datasets_options(options)) {
    if (options.check_threads > 0) datasets_.check_vocabulary(options.vocabulary, options.check_threads);
  }

  std::vector<pipeline::Microbatch> train_step(int64_t step) const override {
    const data::BatchReader reader(*datasets_.train(),
                                   {.microbatch_size = options_.train_microbatch,
                                    .microbatches = options_.microbatches * options_.data_ranks});
    return read(reader, step, options_.microbatches);
  }

  std::vector<pipeline::Microbatch> evaluation() const override {
    return read(evaluation_reader(), 0, evaluation_iterations());
  }

  EvaluatedPart evaluated_part() const override {
    EvaluatedPart part = {.tokens = datasets_.valid()->part_tokens(), .text_bytes = {}};
    const std::optional<data::TextBytes> bytes = data::TextBytes::of(datasets_.files());
    if (!bytes) return part;
    part.text_bytes = 0;
    const data::BatchReader reader = evaluation_reader();
    for (int64_t m = 0; m < evaluation_iterations() * options_.data_ranks; ++m) {
      const data::Batch batch = reader.microbatch(0, m);
      *part.text_bytes += bytes->count(batch.tokens, batch.labels);
    }
    return part;
  }

  std::vector<std::string> describe() const override { return datasets_.describe(); }

 private:
  int64_t evaluation_iterations() const {
    if (!datasets_.valid_is_whole()) return options_.eval_iterations;
    const int64_t samples = options_.eval_microbatch * options_.data_ranks;
    return (datasets_.valid()->size() + samples - 1) / samples;
  }

  /// Of all data ranks' microbatches; those beyond a whole part's end are padding.
  data::BatchReader evaluation_reader() const {
    return {*datasets_.valid(),
            {.microbatch_size = options_.eval_microbatch,
             .microbatches = evaluation_iterations() * options_.data_ranks,
             .beyond_end = datasets_.valid_is_whole() ? data::BeyondEnd::kPadding : data::BeyondEnd::kError}};
  }

  static data::DatasetsOptions datasets_options(const SourceOptions& o) {
    data::DatasetsOptions wanted = {
        .input_dir = o.input_dir, .split = o.split, .sequence_length = o.sequence_tokens, .seed = o.seed};
    if (o.max_steps > 0)
      wanted.train_samples = o.train_microbatch * o.microbatches * o.data_ranks * o.max_steps;
    wanted.whole_valid_tokens = o.whole_part_tokens;
    if (o.eval_iterations > 0)
      wanted.valid_samples = o.eval_microbatch * o.eval_iterations * o.data_ranks * o.evaluations;
    return wanted;
  }

  std::vector<pipeline::Microbatch> read(const data::BatchReader& reader, int64_t step, int64_t count) const {
    std::vector<pipeline::Microbatch> microbatches;
    for (int64_t i = 0; i < count; ++i) {
      data::Batch batch = reader.microbatch(step, i * options_.data_ranks + options_.data_rank);
      microbatches.push_back({.tokens = std::move(batch.tokens), .labels = std::move(batch.labels)});
    }
    return microbatches;
  }

  SourceOptions options_;
  data::Datasets datasets_;
};

class RandomTokens final : public MicrobatchSource {
 public:
  explicit RandomTokens(const SourceOptions& options) : options_(options) {}

  std::vector<pipeline::Microbatch> train_step(int64_t step) const override {
    const uint64_t key = seed_for(static_cast<uint64_t>(options_.seed), "train");
    return make(key, step * options_.microbatches * options_.data_ranks, options_.microbatches,
                options_.train_microbatch);
  }

  std::vector<pipeline::Microbatch> evaluation() const override {
    const uint64_t key = seed_for(static_cast<uint64_t>(options_.seed), "valid");
    return make(key, 0, options_.eval_iterations, options_.eval_microbatch);
  }

  EvaluatedPart evaluated_part() const override { return {}; }

  std::vector<std::string> describe() const override { return {"data: random tokens"}; }

 private:
  std::vector<pipeline::Microbatch> make(uint64_t key, int64_t first, int64_t count,
                                         int64_t sequences) const {
    const int64_t length = options_.sequence_tokens + 1;
    std::vector<pipeline::Microbatch> microbatches;
    for (int64_t i = 0; i < count; ++i) {
      at::Tensor text = at::empty({sequences, length}, at::kLong);
      auto* tokens = text.mutable_data_ptr<int64_t>();
      const auto begin =
          static_cast<uint64_t>((first + i * options_.data_ranks + options_.data_rank) * sequences * length);
      for (int64_t t = 0; t < sequences * length; ++t) {
        tokens[t] = philox(key, begin + static_cast<uint64_t>(t))[0] % options_.vocabulary;
      }
      microbatches.push_back({.tokens = text.narrow(1, 0, length - 1).contiguous(),
                              .labels = text.narrow(1, 1, length - 1).contiguous()});
    }
    return microbatches;
  }

  SourceOptions options_;
};

}  // namespace

std::unique_ptr<MicrobatchSource> open_token_files(const SourceOptions& options) {
  return std::make_unique<TokenFiles>(options);
}

std::unique_ptr<MicrobatchSource> make_random_tokens(const SourceOptions& options) {
  return std::make_unique<RandomTokens>(options);
}

}  // namespace braid::train
