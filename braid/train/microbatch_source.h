// Where a run's microbatches come from: token files, or random tokens for benchmarks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "braid/pipeline/chunk.h"

namespace braid::train {

/// Microbatches by number. A step has as many for each data rank as options say; data rank r of D takes those
/// numbered r, r + D, ... in it, as Megatron's and PaddleNLP's samplers do. Local.
class MicrobatchSource {
 public:
  virtual ~MicrobatchSource() = default;

  /// The microbatches of training step `step`, counted from 0.
  virtual std::vector<pipeline::Microbatch> train_step(int64_t step) const = 0;

  /// The microbatches of an evaluation: the same at every call, so that one run's evaluations compare.
  virtual std::vector<pipeline::Microbatch> evaluation() const = 0;

  /// What an evaluation reads, over all data ranks.
  struct EvaluatedPart {
    int64_t tokens = 0;                 ///< of the whole part; 0 where there is none
    std::optional<int64_t> text_bytes;  ///< that the evaluated labels stand for, if the files tell
  };
  /// Reads the evaluation's tokens of all data ranks.
  virtual EvaluatedPart evaluated_part() const = 0;

  /// Lines for the log.
  virtual std::vector<std::string> describe() const = 0;
};

struct SourceOptions {
  std::string input_dir;
  std::string split;
  int64_t seed = 0;
  int64_t vocabulary = 0;
  int64_t sequence_tokens = 0;
  int64_t train_microbatch = 1;  ///< sequences per microbatch
  int64_t eval_microbatch = 1;
  int64_t microbatches = 1;  ///< per step and data rank
  int64_t eval_iterations =
      0;  ///< microbatches of an evaluation, per data rank; 0: no validation part is needed
  int64_t whole_part_tokens = 0;  ///< a validation part of one file with at most so many is evaluated whole,
                                  ///< instead of eval_iterations
  int64_t max_steps = 0;          ///< 0: no training part is needed
  int64_t data_rank = 0;          ///< the one whose microbatches are wanted
  int64_t data_ranks = 1;
  int64_t evaluations = 0;  ///< of the run; with PaddleNLP's sample counts they size the validation part
  int32_t check_threads =
      0;  ///< check every token id against the vocabulary with so many threads; 0: not on this rank
};

/// Token files under input_dir. Throws ConfigError or DataError, naming file and offset, before anything
/// trains.
std::unique_ptr<MicrobatchSource> open_token_files(const SourceOptions& options);

/// Uniformly random tokens that depend on the seed and the sample's number alone.
std::unique_ptr<MicrobatchSource> make_random_tokens(const SourceOptions& options);

}  // namespace braid::train
