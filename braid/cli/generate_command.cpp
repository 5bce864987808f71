#include "braid/cli/generate_command.h"

#include <ATen/ATen.h>

#include "braid/base/error.h"
#include "braid/checkpoint/safetensors.h"
#include "braid/cli/compute_threads.h"
#include "braid/cli/output_file.h"
#include "braid/cli/parse_command.h"
#include "braid/data/tokenizer/tokenizer.h"
#include "braid/train/generate.h"

namespace braid::cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  std::optional<std::string> tokenizer;
  std::optional<std::string> logits;
  bool overwrite = false;
  int64_t max_new_tokens = 64;
  double temperature = 0.8;
  int64_t top_k = 40;
  int64_t seed = 42;
};

config::OptionTable<GenerateArguments> generate_table() {
  using G = GenerateArguments;
  config::OptionTable<G> table({.command = "braid generate",
                                .usage = "--model DIR --prompt TEXT [--flag value]...",
                                .summary = "Continues TEXT with a model that braid exported, or any Llama in "
                                           "Hugging Face's format."});
  table.group("Model");
  table.add("model", &G::model, {.help = "Directory with config.json and safetensors. Required."});
  table.add(
      "tokenizer", &G::tokenizer,
      {.help = "byte, sentencepiece:FILE, a FILE.model, or a directory with tokenizer.model. Unset: the "
               "model's directory."});
  table.group("Text");
  table.add("prompt", &G::prompt, {.help = "The text to continue. Required."});
  table.add("max_new_tokens", &G::max_new_tokens,
            {.help = "Maximum number of tokens to generate.",
             .unit = "tokens",
             .range = {.at_least = 1, .at_most = 1e9}});
  table.add("logits", &G::logits,
            {.help = "Also write the prompt's logits to this safetensors file, for comparison with another "
                     "program: 'tokens' [s] int64 and 'logits' [s, vocabulary] float32."});
  table.add("overwrite", &G::overwrite, {.help = "Replace an existing file of logits."});
  table.group("Sampling");
  table.add("temperature", &G::temperature,
            {.help = "0: greedy decoding; 1: the model's own distribution; lower values sharpen it.",
             .range = {.at_least = 0, .at_most = 100}});
  table.add("top_k", &G::top_k,
            {.help = "Sample among this many most likely tokens; 0: among all.",
             .range = {.at_least = 0, .at_most = 1e9}});
  table.add("seed", &G::seed, {.help = "The same seed gives the same text.", .range = {.at_least = 0}});
  return table;
}

void write_logits(train::LoadedModel& model, const std::vector<int64_t>& tokens, const std::string& path) {
  const std::vector<checkpoint::NamedTensor> tensors = {
      {.name = "tokens", .tensor = at::tensor(tokens, at::kLong)},
      {.name = "logits", .tensor = train::logits_of(model, tokens)}};
  checkpoint::write_safetensors(path, tensors, {{"format", "pt"}});
}

/// The length of the longest prefix of `text` that does not end inside a UTF-8 character.
size_t whole_characters(std::string_view text) {
  size_t end = text.size();
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // a later byte of a character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    if (length > back) end = text.size() - back;
    break;
  }
  return end;
}

}  // namespace

int generate_command(const CommandContext& context) {
  const auto parsed = parse_command(context, generate_table());
  if (!parsed) return 0;
  const GenerateArguments& arguments = parsed->options;
  require<ConfigError>(!arguments.model.empty(), "--model is missing: a directory such as <output_dir>/hf");
  require<ConfigError>(!arguments.prompt.empty(), "--prompt is missing: the text to continue");
  if (arguments.logits) require_new_file("--logits", *arguments.logits, arguments.overwrite);
  start_compute_threads(context.cores);
  train::LoadedModel model = train::load_model(arguments.model);
  const auto tokenizer = data::make_tokenizer(arguments.tokenizer.value_or(arguments.model));

  std::vector<int64_t> prompt = tokenizer->encode(arguments.prompt);
  std::vector<int64_t> text = prompt;
  size_t printed = 0;
  // Decoded from the start each time: a token may be part of a character, or change the text before it.
  const auto show = [&] {
    const std::string decoded = tokenizer->decode(text);
    const size_t end = whole_characters(decoded);
    if (end > printed) context.out << decoded.substr(printed, end - printed) << std::flush;
    printed = std::max(printed, end);
  };
  show();
  train::generate(model, prompt,
                  {.max_new_tokens = arguments.max_new_tokens,
                   .temperature = arguments.temperature,
                   .top_k = arguments.top_k,
                   .seed = static_cast<uint64_t>(arguments.seed),
                   .vocabulary = tokenizer->vocabulary_size()},
                  [&](int64_t token) {
                    text.push_back(token);
                    show();
                  });
  // After generate(), which checks that the prompt is valid for the model.
  if (arguments.logits) write_logits(model, prompt, *arguments.logits);
  context.out << tokenizer->decode(text).substr(printed) << "\n";
  return 0;
}

}  // namespace braid::cli
