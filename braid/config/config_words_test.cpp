#include "braid/config/config_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "braid/base/error.h"

namespace braid::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PretrainOptions with_words(std::string_view option, const std::string& words) {
  PretrainOptions options;
  if (option == "pipeline_parallel_config") options.pipeline_parallel_config = words;
  if (option == "tensor_parallel_config") options.tensor_parallel_config = words;
  if (option == "sharding_parallel_config") options.sharding_parallel_config = words;
  return options;
}

struct Applied {
  PretrainOptions options;
  std::vector<NoEffect> notes;
  std::string error;
};

Applied apply(std::string_view option, const std::string& words) {
  Applied applied{.options = with_words(option, words), .notes = {}, .error = {}};
  try {
    apply_config_words(applied.options, applied.notes);
  } catch (const ConfigError& error) {
    applied.error = error.what();
  }
  return applied;
}

TEST(ConfigWords, EachIsAnOptionANoteOrAnErrorThatNamesIt) {
  std::map<ConfigWord::Effect, int> count;
  for (const ConfigWord& word : config_words()) {
    const std::string text(word.word);
    SCOPED_TRACE(text);
    ++count[word.effect];
    const Applied applied = apply(word.option, text);
    const std::string label = cat("--", word.option, " ", text);
    if (word.effect == ConfigWord::Effect::kSwitchesOverlap) {
      EXPECT_TRUE(applied.options.enable_send_recv_overlap);
      EXPECT_THAT(applied.notes, IsEmpty());
      EXPECT_EQ(applied.error, "");
      continue;
    }
    EXPECT_FALSE(word.reason.empty());
    EXPECT_EQ(applied.options, with_words(word.option, text));
    if (word.effect == ConfigWord::Effect::kAlwaysOn) {
      EXPECT_THAT(notes_of(applied.notes), ElementsAre(cat(label, " has no effect: ", word.reason)));
      EXPECT_EQ(applied.error, "");
      EXPECT_THAT(accepted_words(word.option), HasSubstr(text));
    } else {
      EXPECT_EQ(applied.error, cat(label, ": this version of braid does not support it: ", word.reason));
    }
  }
  EXPECT_EQ(count.size(), 3U) << "a word of each kind";
}

TEST(ConfigWords, AllWrongWordsAreNamedAtOnce) {
  PretrainOptions options = with_words("tensor_parallel_config", " sync_param  sync_grads x1y2z3 ");
  options.pipeline_parallel_config = "use_dualpipev";
  std::vector<NoEffect> notes;
  std::string message;
  try {
    apply_config_words(options, notes);
  } catch (const ConfigError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("\n  --tensor_parallel_config sync_grads: there is no such "
                                 "word; did you mean sync_grad?\n"));
  EXPECT_THAT(message,
              HasSubstr("--tensor_parallel_config x1y2z3: there is no such word; use enable_mp_async"));
  EXPECT_THAT(message, HasSubstr("--pipeline_parallel_config use_dualpipev: this version"));
  EXPECT_THAT(notes_of(notes), ElementsAre(HasSubstr("sync_param has no effect")));
}

}  // namespace
}  // namespace braid::config
