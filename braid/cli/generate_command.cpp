#include "braid/cli/generate_command.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>

#include "braid/base/error.h"
#include "braid/base/printable.h"
#include "braid/checkpoint/safetensors.h"
#include "braid/cli/export_files.h"
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
  std::optional<bool> add_bos;
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
  table.add("add_bos", &G::add_bos,
            {.help = "Put the tokenizer's BOS id before the prompt. Unset: as add_bos_token of the model's "
                     "tokenizer_config.json says, where exports record what training saw."});
  table.add("max_new_tokens", &G::max_new_tokens,
            {.help = "Maximum number of tokens to generate.",
             .unit = "tokens",
             .range = {.at_least = 1, .at_most = 1e9}});
  table.add("logits", &G::logits,
            {.help = "Also write the prompt's logits to this safetensors file, for comparison with another "
                     "program: 'tokens' [s] int64 and 'logits' [s, vocabulary] float32."});
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

/// The tokenizer that the arguments name, or that of the model's directory.
std::unique_ptr<data::Tokenizer> tokenizer_of(const GenerateArguments& arguments,
                                              const train::LoadedModel& model, std::ostream& err) {
  std::unique_ptr<data::Tokenizer> tokenizer =
      data::make_tokenizer(arguments.tokenizer.value_or(arguments.model));
  require<ConfigError>(tokenizer->vocabulary_size() <= model.config.vocab_size, "the tokenizer ",
                       printable(tokenizer->name()), " has ", tokenizer->vocabulary_size(),
                       " ids, but the model's vocabulary ", model.config.vocab_size,
                       ": it is not the model's tokenizer; omit --tokenizer, or name the right one");
  const std::optional<int64_t> end = tokenizer->eos_id();
  if (end && !model.end_of_text.empty() && std::ranges::count(model.end_of_text, *end) == 0) {
    err << "the tokenizer ends texts with id " << *end << ", the model with " << model.end_of_text.front()
        << ": is this the model's tokenizer?\n";
  }
  return tokenizer;
}

std::vector<int64_t> encode_prompt(const GenerateArguments& arguments, const data::Tokenizer& tokenizer) {
  std::vector<int64_t> ids = tokenizer.encode(arguments.prompt);
  if (!arguments.add_bos.value_or(adds_bos(arguments.model))) return ids;
  require<ConfigError>(
      tokenizer.bos_id().has_value(), "the prompt should begin with a BOS id (",
      arguments.add_bos ? "--add_bos 1" : "add_bos_token of the model's tokenizer_config.json",
      "), but the tokenizer ", printable(tokenizer.name()), " has none; pass --add_bos 0");
  ids.insert(ids.begin(), *tokenizer.bos_id());
  return ids;
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
  std::error_code ignored;
  require<ConfigError>(!arguments.logits || !std::filesystem::exists(*arguments.logits, ignored), "--logits ",
                       printable(arguments.logits.value_or("")), " exists: remove it, or name another file");
  at::set_num_threads(static_cast<int>(context.cores));
  train::LoadedModel model = train::load_model(arguments.model);
  for (const std::string& note : model.notes) context.err << escaped(note) << "\n";
  const auto tokenizer = tokenizer_of(arguments, model, context.err);
  std::vector<int64_t> prompt = encode_prompt(arguments, *tokenizer);
  std::vector<int64_t> text = prompt;
  size_t printed = 0;
  // Decoded from the start each time: a token may be part of a character, or change the text before it.
  const auto show = [&] {
    const std::string decoded = tokenizer->decode(text);
    const size_t end = whole_characters(decoded);
    if (end > printed) context.out << displayable(decoded.substr(printed, end - printed)) << std::flush;
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
  context.out << displayable(tokenizer->decode(text).substr(printed)) << "\n";
  const auto positions = model.config.max_position_embeddings;
  if (std::ssize(text) == positions && positions < std::ssize(prompt) + arguments.max_new_tokens)
    context.err << "stopped after " << positions << " tokens, the model's max_position_embeddings\n";
  return 0;
}

}  // namespace braid::cli
