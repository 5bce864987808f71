#include <c10/util/Exception.h>

#include <array>
#include <utility>

#include "braid/base/error.h"
#include "braid/cli/run.h"

namespace braid::cli {
namespace {

// What to lower where memory runs out, by the command's name.
std::string_view memory_remedy(std::string_view who) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRemedies = {
      {{"braid pretrain",
        "lower --per_device_train_batch_size or --max_seq_length, choose a smaller model, or use more ranks"},
       {"braid generate", "choose a smaller model, or a shorter --prompt with a lower --max_new_tokens"},
       {"braid data tokenizer", "lower --sample_bytes, --vocab_size or --workers"},
       {"braid data prepare", "lower --workers, or split the largest files of the input"},
       {"braid data inspect", "lower --workers, --documents or --bytes"},
       {"braid schedule", "lower --micro, --pp or --chunks"},
       {"braid launch", "start fewer ranks on this machine (--nproc_per_node)"}}};
  for (const auto& [command, remedy] : kRemedies) {
    if (who.starts_with(command)) return remedy;
  }
  return "free some memory";
}

// libtorch's exceptions in words that failure_of and people understand: without stack traces, and a lost
// connection as what it is.
std::exception_ptr translated(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::DistError& error) {
    return std::make_exception_ptr(CommError(cat("libtorch: ", error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) return thrown;
    return std::make_exception_ptr(InternalError(cat("libtorch: ", error.what_without_backtrace())));
  } catch (...) {
    return thrown;
  }
}

}  // namespace

int report_exception(std::string_view who, std::ostream& err) {
  Failure failure;
  try {
    failure = failure_of(translated(std::current_exception()));
  } catch (...) {  // no memory for the translation
    failure = failure_of(std::current_exception());
  }
  std::string_view sentence = failure.sentence;
  while (sentence.ends_with('\n')) sentence.remove_suffix(1);
  // Some messages start with the command's name: "braid launch has nothing to run".
  if (!sentence.starts_with(who) || !sentence.substr(who.size()).starts_with(' ')) err << who << ": ";
  err << sentence;
  if (failure.is_out_of_memory) err << "; " << memory_remedy(who);
  err << "\n" << std::flush;
  return failure.exit_code;
}

}  // namespace braid::cli
