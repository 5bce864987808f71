#include "braid/config/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "braid/base/error.h"

namespace braid::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ServeOptions {
  int64_t port = 29500;
  int32_t small = 0;
  double rate = 0.5;
  bool verbose = false;
  std::string mode = "fast";
  std::optional<std::string> log_dir;
  std::vector<std::string> input;
  std::chrono::seconds timeout{60};
  int64_t shards = 1;
  std::optional<std::string> resume;

  bool operator==(const ServeOptions&) const = default;
};

using Table = OptionTable<ServeOptions>;

Table serve_table() {
  Table table({.command = "braid serve", .usage = "[--flag value]...", .summary = "Serves."});
  table.group("Network");
  table.add("port", &ServeOptions::port,
            {.help = "Port to listen on.",
             .range = {.at_least = 1, .at_most = 65535},
             .aliases = {"p_ort"},
             .known_as = {"listen"}});
  table.add("small", &ServeOptions::small, {.help = "A narrow field."});
  table.add("timeout", &ServeOptions::timeout,
            {.help = "Time limit.", .unit = "seconds", .range = {.at_least = 1}});
  table.group("Work");
  table.add("rate", &ServeOptions::rate, {.help = "Share.", .range = {.above = 0, .below = 1, .also = -1}});
  table.add("verbose", &ServeOptions::verbose,
            {.help = "Say more.", .no_effect = "everything is always said"});
  table.add("mode", &ServeOptions::mode,
            {.help = "Speed.", .choices = {"fast", "slow"}, .spelling = [](const std::string& name) {
               return name == "SLOW" ? "slow" : name;
             }});
  table.add("log_dir", &ServeOptions::log_dir, {.help = "Where logs go."});
  table.add("input", &ServeOptions::input, {.help = "Files."});
  table.add("shards", &ServeOptions::shards, {.help = "Parts.", .supported = {"1"}, .missing = "sharding"});
  table.add("resume", &ServeOptions::resume, {.help = "Resume.", .missing = "resuming"});
  return table;
}

struct Served {
  ServeOptions options;
  std::vector<std::string> notes;
  std::vector<std::string> rest;
};

Served parse(const std::vector<std::string>& arguments, Positionals positionals = Positionals::kReject) {
  const Table table = serve_table();
  Served served;
  ParsedArguments parsed = parse_arguments(arguments, table.specs(), positionals);
  served.notes = notes_of(table.apply(served.options, parsed.assignments));
  served.rest = std::move(parsed.rest);
  return served;
}

std::string error_of(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(OptionTable, ReadsEveryKindOfFieldInBothForms) {
  const ServeOptions expected{.port = 80,
                              .small = -7,
                              .rate = 0.25,
                              .verbose = true,
                              .mode = "slow",
                              .log_dir = "-x",
                              .input = {"a", "-b"},
                              .timeout = std::chrono::seconds(5)};
  EXPECT_EQ(parse({"--port", "80", "--small", "-7", "--rate", "0.25", "--verbose", "--mode", "slow",
                   "--log_dir", "-x", "--input", "a", "-b", "--timeout", "5"})
                .options,
            expected);
  EXPECT_EQ(parse({"--p_ort=80", "--small=-7", "--rate=2.5e-1", "--verbose=YES", "--mode=slow",
                   "--log_dir=-x", "--timeout=5", "--input", "a", "-b"})
                .options,
            expected);
  EXPECT_EQ(parse({"--rate", "-1"}).options.rate, -1);
  EXPECT_EQ(parse({"--log_dir="}).options.log_dir, "");
  EXPECT_EQ(parse({"--log_dir=a=b"}).options.log_dir, "a=b");
}

TEST(OptionTable, SwitchesTakeWordsForTrueAndFalseOnly) {
  for (const char* word : {"1", "true", "yes", "True"})
    EXPECT_TRUE(parse({"--verbose", word}).options.verbose);
  for (const char* word : {"0", "false", "no", "FALSE"})
    EXPECT_FALSE(parse({"--verbose", word}).options.verbose);
  EXPECT_THAT(error_of({"--verbose=maybe"}), HasSubstr("--verbose must be true or false, got 'maybe'"));
  EXPECT_THAT(error_of({"--verbose", "maybe"}), HasSubstr("unexpected argument 'maybe'"));
}

TEST(OptionTable, PositionalsAreRejectedCollectedOrLeftToAnotherCommand) {
  EXPECT_THAT(error_of({"x"}), HasSubstr("unexpected argument 'x': options are given as --name value"));
  EXPECT_THAT(error_of({"-port", "1"}), HasSubstr("with two dashes"));
  EXPECT_THAT(parse({"a", "--port", "80", "b"}, Positionals::kCollect).rest, ElementsAre("a", "b"));
  const Served launched = parse({"--verbose", "pretrain", "--port", "x", "y"}, Positionals::kStopAtFirst);
  EXPECT_TRUE(launched.options.verbose);
  EXPECT_THAT(launched.rest, ElementsAre("pretrain", "--port", "x", "y"));
}

TEST(OptionTable, ErrorsNameTheOptionTheValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of({"--port", "0"}), "--port must be a whole number, >= 1 and <= 65535, got '0'");
  EXPECT_EQ(error_of({"--port", "1.5"}), "--port must be a whole number, >= 1 and <= 65535, got '1.5'");
  EXPECT_EQ(error_of({"--rate", "1"}), "--rate must be a number, -1 or > 0 and < 1, got '1'");
  EXPECT_THAT(error_of({"--rate", "nan"}), HasSubstr("must be a number"));
  EXPECT_EQ(error_of({"--mode", "quick"}), "--mode must be one of fast, slow, got 'quick'");
  EXPECT_EQ(error_of({"--shards", "4"}),
            "--shards 4: this version of braid does not support sharding; use 1");
  EXPECT_EQ(error_of({"--resume", "x"}),
            "--resume x: this version of braid does not support resuming; omit it");
  EXPECT_EQ(error_of({"--portt", "4"}), "--portt: there is no such option; did you mean port?");
  EXPECT_EQ(parse({"--log-dir", "4"}).options.log_dir, "4") << "dashes stand for underscores";
  EXPECT_EQ(error_of({"--listen", "4"}), "--listen: there is no such option; it is called port here");
  EXPECT_EQ(error_of({"--hlep"}), "--hlep: there is no such option; did you mean help?");
  EXPECT_EQ(error_of({"--Mode", "slow"}), "--Mode: there is no such option; did you mean mode?");
  EXPECT_EQ(error_of({"--mode", "fsat"}), "--mode must be one of fast, slow, got 'fsat'; did you mean fast?");
  EXPECT_EQ(parse({"--mode", "SLOW"}).options.mode, "slow") << "a spelling that the table knows";
  EXPECT_EQ(error_of({"--quixotic", "4"}), "--quixotic: there is no such option; --help lists them");
  EXPECT_EQ(error_of({"--port", "1", "--p_ort", "2"}), "--p_ort is given twice, as '1' and as '2'; keep one");
  EXPECT_THAT(error_of({"--port", "--verbose"}), HasSubstr("--port needs a value: a whole number"));
  EXPECT_THAT(error_of({"--input"}), HasSubstr("--input needs a value"));
  EXPECT_THAT(error_of({"--small", "3000000000"}), HasSubstr("3000000000 is too large"));
  EXPECT_THAT(error_of({"--port", "99999999999999999999"}), HasSubstr("--port must be"));
}

TEST(OptionTable, AllErrorsOfALineComeAtOnce) {
  EXPECT_EQ(error_of({"--portt", "4", "5", "--mode", "--rate", "0.1", "--rate=0.2", "-x", "y"}),
            "4 errors:\n  --portt: there is no such option; did you mean port?\n"
            "  --mode needs a value: one of fast, slow\n"
            "  --rate is given twice, as '0.1' and as '0.2'; keep one\n"
            "  unexpected argument '-x': options are given as --name value, with two dashes")
      << "what follows an unknown flag is its value";
}

TEST(OptionTable, HelpIsShortOrWholeOrOnOneOption) {
  const auto table = [] {
    Table table({.command = "braid serve", .usage = "", .summary = "Serves."});
    table.group("Network");
    table.add("port", &ServeOptions::port, {.help = "Port to listen on.", .is_basic = true});
    table.add("mode", &ServeOptions::mode,
              {.help = "Speed.", .choices = {"fast", "slow"}, .supported = {"fast"}, .missing = "haste"});
    return table;
  }();
  EXPECT_THAT(table.help(std::nullopt), testing::AllOf(HasSubstr("--port"), testing::Not(HasSubstr("--mode")),
                                                       HasSubstr("These are 1 of 2 options")));
  EXPECT_EQ(table.help("all"), table.help());
  EXPECT_EQ(table.help("--mode"), "  --mode <fast>  [default: fast]\n      Speed.\n")
      << "a value that would be rejected is not offered";
  EXPECT_THROW(table.help("moed"), ConfigError);
}

TEST(OptionTable, NotesNameOptionsWithoutEffect) {
  EXPECT_THAT(parse({"--verbose", "0"}).notes,
              ElementsAre("--verbose 0 has no effect: everything is always said"));
  EXPECT_TRUE(parse({"--port", "80"}).notes.empty());
}

TEST(OptionTable, LaterAssignmentsTakePrecedenceAndAreNotedOnce) {
  const Table table = serve_table();
  ServeOptions options;
  const std::vector<Assignment> given = {{"port", {"80"}, "f.yaml:1: port"},
                                         {"verbose", {"1"}, "f.yaml:2: verbose"},
                                         {"port", {"81"}, "--port"},
                                         {"verbose", {"0"}, "--verbose"}};
  EXPECT_THAT(notes_of(table.apply(options, given)), ElementsAre(HasSubstr("--verbose 0")));
  EXPECT_EQ(options.port, 81);
}

TEST(OptionTable, ValuesFromAFileAreRejectedWithTheirPosition) {
  const Table table = serve_table();
  const auto message = [&](const Assignment& given) {
    ServeOptions options;
    try {
      table.apply(options, std::vector<Assignment>{given});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({"port", {"x"}, "f.yaml:1: port"}), testing::StartsWith("f.yaml:1: port must be"));
  EXPECT_THAT(message({"port", {"1", "2"}, "f.yaml:1: port"}), HasSubstr("takes one value"));
  EXPECT_THAT(message({"portt", {"1"}, "f.yaml:1: portt"}),
              HasSubstr("f.yaml:1: portt: there is no such option; did you mean port?"));
}

TEST(OptionTable, AllErrorsComeAtOnceAndTheRestIsSet) {
  const Table table = serve_table();
  ServeOptions options;
  const std::vector<Assignment> given = {{"port", {"0"}, "f.yaml:1: port"},
                                         {"rate", {"0.25"}, "f.yaml:2: rate"},
                                         {"mod", {"slow"}, "f.yaml:3: mod"},
                                         {"shards", {"4"}, "--shards"}};
  std::string message;
  try {
    table.apply(options, given);
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(errors.messages.size(), 3U);
    message = errors.what();
  }
  EXPECT_EQ(message,
            "3 errors:\n  f.yaml:1: port must be a whole number, >= 1 and <= 65535, got '0'\n"
            "  f.yaml:3: mod: there is no such option; did you mean mode?\n"
            "  --shards 4: this version of braid does not support sharding; use 1");
  EXPECT_EQ(options.rate, 0.25);
  message.clear();
  try {
    table.check({.port = 0, .shards = 2});
  } catch (const ConfigErrors& errors) {
    message = errors.what();
  }
  EXPECT_THAT(message, testing::StartsWith("2 errors:\n  --port must be"));
}

TEST(ErrorList, OneErrorStandsAloneAndSeveralAreFlattened) {
  ErrorList none;
  EXPECT_TRUE(none.attempt([] {}));
  EXPECT_NO_THROW(none.throw_if_any());
  const auto text = [](const ErrorList& errors) {
    try {
      errors.throw_if_any();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  ErrorList errors;
  errors.check(true, "no");
  EXPECT_FALSE(errors.attempt([] { throw ConfigError("first"); }));
  EXPECT_EQ(text(errors), "first");
  ErrorList outer;
  outer.check(false, "num", 1);
  errors.check(false, "second");
  EXPECT_FALSE(outer.attempt([&] { errors.throw_if_any(); }));
  EXPECT_EQ(text(outer), "3 errors:\n  num1\n  first\n  second");
  EXPECT_THROW(outer.attempt([] { throw InternalError("a bug"); }), InternalError);
}

TEST(OptionTable, CheckFindsFieldsThatTheirFlagsWouldReject) {
  const Table table = serve_table();
  EXPECT_NO_THROW(table.check({}));
  EXPECT_THROW(table.check({.port = 0}), ConfigError);
  EXPECT_THROW(table.check({.shards = 2}), ConfigError);
  EXPECT_THROW(table.check({.resume = "x"}), ConfigError);
}

TEST(OptionTable, DeclaringANameTwiceIsABug) {
  Table table = serve_table();
  EXPECT_THROW(table.add("port", &ServeOptions::small, {.help = ""}), InternalError);
  EXPECT_THROW(table.add("x", &ServeOptions::small, {.help = "", .aliases = {"p_ort"}}), InternalError);
}

TEST(OptionTable, HelpInFull) {
  Table table({.command = "braid serve", .usage = "[--flag value]...", .summary = "Serves."});
  table.group("Network");
  table.add("port", &ServeOptions::port,
            {.help = "Port to listen on.", .range = {.at_least = 1, .at_most = 65535}, .aliases = {"p"}});
  table.add("timeout", &ServeOptions::timeout, {.help = "Time limit.", .unit = "seconds"});
  table.group("Work");
  table.add("mode", &ServeOptions::mode, {.help = "Speed.", .choices = {"fast", "slow"}});
  table.add("verbose", &ServeOptions::verbose,
            {.help = "Say more.", .no_effect = "everything is always said"});
  table.add("input", &ServeOptions::input, {.help = "Files."});
  table.add("shards", &ServeOptions::shards, {.help = "Parts.", .supported = {"1"}, .missing = "sharding"});
  EXPECT_EQ(table.help(), R"(Usage: braid serve [--flag value]...

Serves.

Network
  --port <int>  [default: 29500; >= 1 and <= 65535]
      Port to listen on. Also --p.
  --timeout <int> seconds  [default: 60]
      Time limit.

Work
  --mode <fast|slow>  [default: fast]
      Speed.
  --verbose <bool>  [default: false; no effect]
      Say more. No effect: everything is always said.
  --input <string...>  [default: unset]
      Files.
  --shards <int>  [default: 1; supported: 1]
      Parts.
)");
  EXPECT_THAT(table.markdown(), HasSubstr("| `--mode` | fast\\|slow |  | fast |  | Speed. |\n"));
}

TEST(OptionTable, PrintBackMarksValuesThatDifferFromTheDefault) {
  const std::string text =
      serve_table().print_back({.port = 80, .log_dir = "a: b # \"c\"", .input = {"x", "y z"}});
  EXPECT_THAT(text, HasSubstr("port: 80  # default: 29500\n"));
  EXPECT_THAT(text, HasSubstr("\nsmall: 0\n"));
  EXPECT_THAT(text, HasSubstr("log_dir: \"a: b # \\\"c\\\"\"  # default: unset\n"));
  EXPECT_THAT(text, HasSubstr("input: [x, \"y z\"]  # default: unset\n"));
  EXPECT_THAT(text, HasSubstr("# resume: unset\n"));
}

}  // namespace
}  // namespace braid::config
