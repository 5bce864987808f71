#include "braid/cli/data_command.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "braid/base/error.h"
#include "braid/base/text.h"
#include "braid/cli/command_group.h"
#include "braid/cli/parse_command.h"
#include "braid/cli/progress_bar.h"
#include "braid/cli/stop_signals.h"
#include "braid/data/inspect.h"
#include "braid/data/prepare.h"
#include "braid/data/tokenizer/tokenizer_train.h"

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMostThreads = 1024;

struct PrepareArguments {
  std::vector<std::string> input{};
  std::string format = "auto";
  std::string json_key = "text";
  std::vector<std::string> extensions{};
  std::vector<std::string> exclude{};
  std::string output_prefix{};
  std::string tokenizer{};
  bool prepend_bos = false;
  bool append_eod = true;
  int64_t shuffle = 1;
  bool overwrite = false;
  std::optional<int32_t> workers{};
};

struct TokenizerArguments {
  std::vector<std::string> input{};
  std::string format = "auto";
  std::string json_key = "text";
  std::vector<std::string> extensions{};
  std::vector<std::string> exclude{};
  std::string output{};
  int32_t vocab_size = 4096;
  int64_t sample_bytes = 10'000'000;
  bool overwrite = false;
  std::optional<int32_t> workers{};
};

struct InspectArguments {
  std::optional<std::string> tokenizer{};
  std::optional<int64_t> vocab_size{};
  std::optional<int64_t> documents{};
  int64_t bytes = 300;
  std::optional<int32_t> workers{};
};

template <typename Arguments>
void add_text_options(config::OptionTable<Arguments>& table) {
  table.group("Text");
  table.add(
      "input", &Arguments::input,
      {.help =
           "Files and directories, read in this order, directories recursively. They may be compressed by "
           "gzip or zstd. Required."});
  table.add(
      "format", &Arguments::format,
      {.help = "text: each file is one document; jsonl: a JSON object a line; json: an array of objects, or "
               "objects over several lines; auto: by name and content, a file that is not JSON is text.",
       .choices = {"auto", "text", "jsonl", "json"}});
  table.add("json_key", &Arguments::json_key, {.help = "The key of the text in a JSON object."});
  table.add(
      "extensions", &Arguments::extensions,
      {.help = "Take only files with these extensions from directories, as in: txt rst. Unset: all text "
               "files."});
  table.add("exclude", &Arguments::exclude,
            {.help = "Skip files and directories with these names in directories."});
}

data::TextFormat format_named(const std::string& name) {
  if (name == "text") return data::TextFormat::kText;
  if (name == "jsonl") return data::TextFormat::kJsonLines;
  if (name == "json") return data::TextFormat::kJson;
  return data::TextFormat::kAuto;
}

template <typename Arguments>
data::TextOptions text_options(const Arguments& arguments) {
  require<ConfigError>(!arguments.input.empty(),
                       "--input is missing: text files and directories, as in --input docs more.jsonl");
  return {.inputs = arguments.input,
          .json_key = arguments.json_key,
          .format = format_named(arguments.format),
          .excluded = arguments.exclude,
          .extensions = arguments.extensions};
}

template <typename Arguments>
void add_workers(config::OptionTable<Arguments>& table) {
  table.add("workers", &Arguments::workers,
            {.help = "Threads; their number does not change the result. Unset: one per core.",
             .range = {.at_least = 1, .at_most = kMostThreads}});
}

int32_t workers_of(const CommandContext& context, std::optional<int32_t> workers) {
  return workers.value_or(static_cast<int32_t>(std::clamp<int64_t>(context.cores, 1, 1024)));
}

config::OptionTable<PrepareArguments> prepare_table() {
  using P = PrepareArguments;
  config::OptionTable<P> table({.command = "braid data prepare",
                                .usage = "--input PATH... --output_prefix PREFIX --tokenizer TOKENIZER",
                                .summary =
                                    "Turns text into token files PREFIX.bin and PREFIX.idx (Megatron's "
                                    "format), which braid pretrain reads with --input_dir, and "
                                    "PREFIX.meta.json, which says how they were made."});
  add_text_options(table);
  table.group("Tokens");
  table.add(
      "tokenizer", &P::tokenizer,
      {.help = "byte (ids 0 to 255 are the bytes, 256 ends a document), sentencepiece:FILE, a FILE.model, "
               "or a directory with tokenizer.model. Required."});
  table.add("append_eod", &P::append_eod,
            {.help = "Append the tokenizer's end-of-text id to every document."});
  table.add(
      "prepend_bos", &P::prepend_bos,
      {.help = "Put the tokenizer's beginning-of-text id before every document. PREFIX.meta.json says so; "
               "prompts and an exported tokenizer follow it."});
  table.add(
      "shuffle", &P::shuffle,
      {.help = "Seed of the order in which documents are written, so that no part of --split consists of "
               "the last files alone. 0: the order of the input.",
       .range = {.at_least = 0, .at_most = 4294967295.0}});
  table.group("Output");
  table.add(
      "output_prefix", &P::output_prefix,
      {.help = "Path of the files without .bin, .idx and .meta.json; its directory is created. Required."});
  table.add("overwrite", &P::overwrite, {.help = "Replace existing files."});
  add_workers(table);
  return table;
}

config::OptionTable<TokenizerArguments> tokenizer_table() {
  using T = TokenizerArguments;
  config::OptionTable<T> table({.command = "braid data tokenizer",
                                .usage = "--input PATH... --output FILE.model|DIR",
                                .summary = "Trains a SentencePiece tokenizer (BPE with byte fallback, like "
                                           "Llama's) on text."});
  add_text_options(table);
  table.group("Tokenizer");
  table.add("vocab_size", &T::vocab_size,
            {.help = "Number of token ids.", .range = {.at_least = 1, .at_most = 1e6}});
  table.add("sample_bytes", &T::sample_bytes,
            {.help = "Text to train on, sampled evenly from the input. More is slower and changes little.",
             .unit = "bytes",
             .range = {.at_least = 1}});
  table.group("Output");
  table.add("output", &T::output, {.help = "A FILE.model, or a directory for tokenizer.model. Required."});
  table.add(
      "overwrite", &T::overwrite,
      {.help = "Replace an existing file. Token files and models made with the old one no longer match."});
  add_workers(table);
  return table;
}

config::OptionTable<InspectArguments> inspect_table() {
  using I = InspectArguments;
  config::OptionTable<I> table({.command = "braid data inspect",
                                .usage = "PREFIX [--flag value]...",
                                .summary = "Reads all of PREFIX.bin and PREFIX.idx, checks them, and "
                                           "summarises their contents."});
  table.group("Checks");
  table.add("tokenizer", &I::tokenizer,
            {.help = "Check that every id is in this tokenizer's vocabulary, and show documents as text."});
  table.add("vocab_size", &I::vocab_size,
            {.help = "Check that every id is below this number.", .range = {.at_least = 1}});
  table.group("Output");
  table.add("documents", &I::documents,
            {.help = "Documents to show; requires --tokenizer. Unset: 3.", .range = {.at_least = 0}});
  table.add("bytes", &I::bytes,
            {.help = "At most this much of each document is shown.",
             .unit = "bytes",
             .range = {.at_least = 1, .at_most = 1e9}});
  add_workers(table);
  return table;
}

// Thrown from a progress callback. Not an error: report_stop reports it.
struct Stopped {
  int signal = 0;
};

// So that partial files are removed as the stack unwinds.
void throw_if_stopped(const StopSignals& signals) {
  if (const auto signal = signals.seen()) throw Stopped{*signal};
}

int report_stop(const CommandContext& context, const Stopped& stopped) {
  context.err << context.name << ": stopped by " << signal_name(stopped.signal) << "; nothing was written\n";
  return kSignalExitCode + stopped.signal;
}

ProgressBar progress_on(const CommandContext& context, std::string label) {
  return ProgressBar(context.err, {.label = std::move(label),
                                   .columns = context.err_columns,
                                   .columns_now = [now = context.columns_now]() {
                                     return now ? now(STDERR_FILENO) : std::nullopt;
                                   }});
}

double fraction_of(int64_t done_bytes, int64_t total_bytes) {
  return static_cast<double>(done_bytes) / static_cast<double>(std::max<int64_t>(total_bytes, 1));
}

// "12.50 MiB/s" since `start`.
std::string rate_text(int64_t bytes, std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double seconds = std::max(elapsed.count(), 1e-3);
  return bytes_text(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)) + "/s";
}

int prepare_command(const CommandContext& context) {
  const auto parsed = parse_command(context, prepare_table());
  if (!parsed) return 0;
  const PrepareArguments& arguments = parsed->options;
  const data::PrepareOptions options = {
      .text = text_options(arguments),
      .output_prefix = arguments.output_prefix,
      .tokenizer = arguments.tokenizer,
      .document_begin = arguments.prepend_bos ? data::DocumentBegin::kBosToken : data::DocumentBegin::kNone,
      .document_end = arguments.append_eod ? data::DocumentEnd::kEosToken : data::DocumentEnd::kNone,
      .shuffle_seed = arguments.shuffle == 0 ? std::nullopt : std::optional(arguments.shuffle),
      .existing = arguments.overwrite ? data::Existing::kReplace : data::Existing::kReject,
      .workers = workers_of(context, arguments.workers)};
  require<ConfigError>(
      !options.output_prefix.empty(),
      "--output_prefix is missing: the path of the token files, as in out/docs for out/docs.bin "
      "and out/docs.idx");
  require<ConfigError>(
      !options.tokenizer.empty(),
      "--tokenizer is missing: byte, sentencepiece:FILE, or a directory with tokenizer.model");
  outlive_reader();
  try {
    const StopSignals signals;
    ProgressBar bar = progress_on(context, "prepare");
    const auto start = std::chrono::steady_clock::now();
    const data::PrepareSummary summary = data::prepare(options, [&](const data::PrepareProgress& progress) {
      using Phase = data::PrepareProgress::Phase;
      // Where the files are complete, a signal comes too late.
      if (progress.phase != Phase::kDone) throw_if_stopped(signals);
      if (progress.phase == Phase::kShuffling) {
        bar.update(progress.shuffled, "shuffling");
        return;
      }
      bar.update(fraction_of(progress.done_bytes, progress.total_bytes),
                 rate_text(progress.done_bytes, start));
    });
    bar.erase();
    const std::string prefix = data::index_prefix(options.output_prefix);
    context.out << prefix << ".bin and " << prefix << ".idx:\n" << data::to_text(summary);
  } catch (const Stopped& stopped) {
    return report_stop(context, stopped);
  }
  return 0;
}

int tokenizer_command(const CommandContext& context) {
  const auto parsed = parse_command(context, tokenizer_table());
  if (!parsed) return 0;
  const TokenizerArguments& arguments = parsed->options;
  const data::TrainTokenizerOptions options = {.text = text_options(arguments),
                                               .output = arguments.output,
                                               .pieces = arguments.vocab_size,
                                               .sample_bytes = arguments.sample_bytes,
                                               .threads = workers_of(context, arguments.workers)};
  require<ConfigError>(!options.output.empty(),
                       "--output is missing: FILE.model, or a directory for tokenizer.model");
  for (const fs::path& file : {fs::path(options.output), fs::path(options.output) / "tokenizer.model"}) {
    require<ConfigError>(arguments.overwrite || !fs::is_regular_file(file), file.string(),
                         " exists: choose another --output, or pass --overwrite 1 to replace it");
  }
  outlive_reader();
  try {
    auto signals = std::make_unique<const StopSignals>();
    ProgressBar bar = progress_on(context, "tokenizer");
    const auto start = std::chrono::steady_clock::now();
    const auto show = [&](const data::TrainTokenizerProgress& progress) {
      if (progress.phase == data::TrainTokenizerProgress::Phase::kTraining) {
        // There are no further callbacks, and nothing is on disk yet: signals may end the process as usual.
        if (signals) throw_if_stopped(*signals);
        signals.reset();
        bar.erase();
        bar.update(std::nullopt, "training");
        return;
      }
      throw_if_stopped(*signals);
      bar.update(fraction_of(progress.done_bytes, progress.total_bytes),
                 "reading, " + rate_text(progress.done_bytes, start));
    };
    const data::TrainTokenizerSummary summary = data::train_sentencepiece(options, show);
    bar.erase();
    context.out << data::to_text(summary);
  } catch (const Stopped& stopped) {
    return report_stop(context, stopped);
  }
  return 0;
}

int inspect_command(const CommandContext& context) {
  const auto parsed = parse_command(context, inspect_table(), config::Positionals::kCollect);
  if (!parsed) return 0;
  const InspectArguments& arguments = parsed->options;
  require<ConfigError>(parsed->rest.size() == 1, "expected one PREFIX, as in ", context.name,
                       " out/docs for out/docs.bin and out/docs.idx; got ", parsed->rest.size());
  require<ConfigError>(!arguments.documents || arguments.tokenizer,
                       "--documents requires --tokenizer, which decodes the ids");
  context.out << data::to_text(data::inspect({.prefix = parsed->rest.front(),
                                              .tokenizer = arguments.tokenizer,
                                              .vocabulary_size = arguments.vocab_size,
                                              .documents_shown = arguments.documents.value_or(3),
                                              .bytes_shown = arguments.bytes,
                                              .threads = workers_of(context, arguments.workers)}));
  return 0;
}

}  // namespace

int data_command(const CommandContext& context) {
  return run_group(
      context, {.summary = "Prepares the token files that braid pretrain reads.",
                .commands = {{"tokenizer", "train a SentencePiece tokenizer on text", tokenizer_command},
                             {"prepare", "turn text into token files", prepare_command},
                             {"inspect", "check token files and summarise their contents", inspect_command}},
                .examples = {"braid data tokenizer --input docs --output out/tokenizer.model",
                             "braid data prepare --input docs --output_prefix out/docs --tokenizer "
                             "out/tokenizer.model",
                             "braid data inspect out/docs --tokenizer out/tokenizer.model"}});
}

}  // namespace braid::cli
