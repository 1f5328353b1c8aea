// Whatever is wrong with an input: exit code 2, its place, the line, a caret, what would be right; and nothing written.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kBadInput = 2;

void expect_refused(const Outcome& outcome, const std::string& what) {
  EXPECT_EQ(outcome.exit_code, kBadInput) << what << "\n" << outcome.errors;
  EXPECT_EQ(first_line(outcome.out), "") << what;
  EXPECT_NE(outcome.errors, "") << what;
  const bool printable =
      std::ranges::all_of(outcome.errors, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
  EXPECT_TRUE(printable) << what << "\n" << outcome.errors;
}

// "source:line:column: error: message", the line with a caret under the column, advice.
void expect_refused_at(const Outcome& outcome, const std::string& place, const std::string& message,
                       const std::string& advice) {
  expect_refused(outcome, place);
  EXPECT_THAT(outcome.errors, StartsWith(place + ": error: ")) << place;
  EXPECT_THAT(outcome.errors, HasSubstr(message)) << place;
  EXPECT_THAT(outcome.errors, HasSubstr(advice)) << place;
  const std::vector<std::string> lines = lines_of(outcome.errors);
  ASSERT_GE(lines.size(), 3U) << outcome.errors;
  const int column = std::stoi(place.substr(place.rfind(':') + 1));
  if (column <= 80) {
    EXPECT_EQ(lines[2], std::string(static_cast<size_t>(column) + 1, ' ') + "^") << outcome.errors;
  }
}

TEST(BadIds, AreRefused) {
  const std::string config = "tests/golden/ids/configs/qwen3.json";
  const Outcome module = shell("zero3sim ids " + config + " --module 999");
  expect_refused(module, "--module");
  EXPECT_THAT(module.errors, HasSubstr("--module: no module has the id 999"));
  EXPECT_THAT(module.errors, HasSubstr("ids are 0 to 36"));
  const Outcome param = shell("zero3sim ids " + config + " --param 999");
  expect_refused(param, "--param");
  EXPECT_THAT(param.errors, HasSubstr("no param has the id 999"));
  expect_refused(shell("zero3sim ids " + config + " --transformers 3"), "--transformers");
  expect_refused(shell("zero3sim ids " + config + " --deepspeed all"), "--deepspeed");
  expect_refused(shell("zero3sim ids missing.json"), "missing.json");
  const Outcome scenario =
      shell("zero3sim ids scenarios/dynamic-graphs/deepspeed-5828.yaml --transformers 5");
  expect_refused(scenario, "a scenario");
  EXPECT_THAT(scenario.errors, HasSubstr("--transformers is for a config.json"));
}

struct BadProgram {
  std::string program;
  int column;
  std::string message;
  std::string advice;
};

TEST(BadProgram, IsShownWithItsColumn) {
  for (const BadProgram& bad :
       std::vector<BadProgram>{{"t:ABC q:AB", 7, "unknown token 'q'", "tokens are: t to tb f b s"},
                               {"t:ABC T:A", 7, "'T' takes no modules", "write 'T' alone"},
                               {"t:ABC w:A", 7, "'w' takes no modules", "write 'w' alone"},
                               {"t:abc", 3, "unknown module 'a'", "A B C D E F"},
                               {"t:A1", 4, "unknown module '1'", "A B C D E F"},
                               {"t:A[B", 4, "'[' without its ']'", ""},
                               {"t:A]B", 4, "']' without its '['", ""},
                               {"t:[B]", 3, "'[' without a module before it", "A[ab]"},
                               {"t", 1, "'t' needs the modules to call", "t:ABC"},
                               {"t:", 2, "no module to call", "t:ABC"},
                               {"t:ABC g:", 7, "which params to gather is missing", "g:B"},
                               {"t:ABC gm", 7, "which params to gather is missing", "g:B"},
                               {"g:Q1", 4, "unknown module '1'", ""},
                               {"gm:A.bias", 4, "no param 'bias'", "weight"},
                               {"g:A,,B", 5, "a param's name is missing", ""},
                               {"g:A,Z.weight,b.weight", 14, "unknown module 'b'", "A B C"}}) {
    expect_refused_at(shell("zero3sim try " + shell_quoted(bad.program)),
                      "program:1:" + std::to_string(bad.column), bad.message, bad.advice);
  }
}

TEST(BadProgram, MayHaveSeveralLines) {
  EXPECT_EQ(shell("zero3sim try 't:ABC\nt:ABC'").exit_code, 0);
  expect_refused_at(shell("zero3sim try 't:ABC\nt:A q:A'"), "program:2:5", "unknown token 'q'", "tokens are");
}

TEST(BadProgram, MayBeAnything) {
  for (const std::string program : {"", "   ", ":", "::", "t::A", "t:A:B", "\x01", "t:\xff\xfe",
                                    "t:A\xc3\x84", "[[[[", "t:A[[B]]", "--", "t:ABC,"}) {
    expect_refused(shell("zero3sim try -- " + shell_quoted(program)), "program '" + program + "'");
  }
  const std::string deep = "t:" + std::string(5000, 'A');
  std::string nested = "t:";
  for (int i = 0; i < 5000; ++i) nested += "A[";
  expect_refused(shell("zero3sim try " + shell_quoted(nested)), "nested");
  EXPECT_EQ(shell("zero3sim try " + shell_quoted(deep)).exit_code, 0)
      << "a long program is none the worse for it";
}

TEST(BadRelease, IsShownWithWhatIsKnown) {
  const std::string scenario = "scenarios/dynamic-graphs/deepspeed-5828.yaml";
  for (const std::string& command :
       {"run " + scenario + " --deepspeed ", std::string("try t:ABC --deepspeed ")}) {
    expect_refused_at(shell("zero3sim " + command + "0.15.99"), "--deepspeed:1:1", "unknown release 0.15.99",
                      "0.15.4");
    expect_refused_at(shell("zero3sim " + command + "0.20.0"), "--deepspeed:1:1", "unknown release 0.20.0",
                      "0.19.8");
    expect_refused_at(shell("zero3sim " + command + "0.3.11"), "--deepspeed:1:1", "unknown release 0.3.11",
                      "0.3.12");
    expect_refused_at(shell("zero3sim " + command + "latest"), "--deepspeed:1:1", "'latest' is not a release",
                      "0.15.2");
    expect_refused_at(shell("zero3sim " + command + "'0.15.3 - 0.15.2'"), "--deepspeed:1:1", "empty",
                      "0.15.2");
    for (const std::string text :
         {"''", "0.15", "1e3", "-1", "99999999999999999999.0.0", "'> 0.15.2 <'", "0.15.2,"}) {
      const std::string line = command + text;
      expect_refused(shell("zero3sim " + line), line);
    }
  }
  for (const std::string text : {"0.15.99", "latest", "all", "'0.15.2 - 0.15.3'"}) {
    const Outcome outcome = shell("zero3sim releases " + text);
    expect_refused(outcome, text);
    EXPECT_THAT(outcome.errors, Not(HasSubstr("--deepspeed"))) << "releases has no such option";
  }
}

TEST(BadOption, IsRefused) {
  for (const std::string option : {"--gas 0",
                                   "--gas -1",
                                   "--gas 1.5",
                                   "--gas x",
                                   "--gas 99999999999999999999",
                                   "--prefetch -1",
                                   "--prefetch 1.5",
                                   "--prefetch 4611686018427387905",
                                   "--prefetch 99999999999999999999",
                                   "--prefetch ''",
                                   "--reuse -1",
                                   "--reuse x",
                                   "--reuse 99999999999999999999",
                                   "--live -1",
                                   "--live x",
                                   "--live 99999999999999999999",
                                   "--persist -1",
                                   "--persist x",
                                   "--persist 99999999999999999999",
                                   "--input-grad 2",
                                   "--input-grad -1",
                                   "--input-grad x",
                                   "--dup Z",
                                   "--dup AB",
                                   "--dup a",
                                   "--dup ''",
                                   "--ranks 0",
                                   "--ranks -1",
                                   "--ranks x",
                                   "--ranks 1000000000",
                                   "--ranks 99999999999999999999",
                                   "--seed -1",
                                   "--seed x",
                                   "--seed 1.5",
                                   "--seed 18446744073709551616",
                                   "--format xml",
                                   "--format ''",
                                   "--format 1",
                                   "--unknown",
                                   "extra",
                                   "--gas",
                                   "--prefetch",
                                   "--seed",
                                   "--trace",
                                   "--model",
                                   "--trace ''",
                                   "--model ''"}) {
    expect_refused(shell("zero3sim try t:ABC " + option), option);
  }
  const std::string run = "zero3sim run scenarios/dynamic-graphs/deepspeed-5828.yaml ";
  for (const std::string option :
       {"--ranks 0", "--ranks -1", "--ranks 1000000000", "--seed -1", "--seed x",
        "--seed 18446744073709551616", "--format xml", "--unknown", "--trace ''"}) {
    expect_refused(shell(run + option), option);
  }
}

TEST(BadCommand, IsRefused) {
  for (const std::string command : {"", "frobnicate", "run", "try", "releases 0.15.2 0.15.3", "--unknown"}) {
    expect_refused(shell("zero3sim " + command), command);
  }
  EXPECT_THAT(shell("zero3sim frobnicate").errors, HasSubstr("frobnicate"));
}

// "say which release brought it"
TEST(BadProgram, MayBeAheadOfItsRelease) {
  expect_refused_at(shell("zero3sim try 't:ABC x' --deepspeed 0.8.3"), "program:1:7",
                    "0.8.3 has no empty_partition_cache", "0.9.0 brought it");
  expect_refused_at(shell("zero3sim try 't:ABC r' --deepspeed 0.14.5"), "program:1:7",
                    "0.14.5 has no unwrap_model_for_generation", "0.15.0 brought it");
  expect_refused_at(shell("zero3sim try 't:ABC u:A' --deepspeed 0.14.5"), "program:1:7",
                    "0.14.5 has no unwrap_model_for_generation", "0.15.0 brought it");
  expect_refused_at(shell("zero3sim try 't:ABC os' --deepspeed 0.15.1"), "program:1:7",
                    "0.15.1 has no offload_states", "0.15.2 brought it");
  expect_refused_at(shell("zero3sim try 't:ABC w' --deepspeed 0.3.13"), "program:1:7", "0.3.13 has no",
                    "0.3.14 brought it");
}

class BadFile : public ::testing::Test {
 protected:
  void expect_both_refused(const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    for (const std::string& command : {"run " + shell_quoted(path), "try t:A --model " + shell_quoted(path),
                                       "list " + shell_quoted(path)}) {
      const Outcome outcome = shell("zero3sim " + command);
      expect_refused(outcome, command);
      EXPECT_THAT(outcome.errors, StartsWith(path + ":")) << command;
    }
  }
  Folder folder;
};

TEST_F(BadFile, MayBeAnything) {
  expect_both_refused("empty", "");
  expect_both_refused("blank", " \n\n");
  expect_both_refused("binary", std::string("\x7f"
                                            "ELF\x02\x01\x00\x00\xff\xfe\x00",
                                            11));
  expect_both_refused("latin1", "zero3sim: 1\nname: caf\xe9\n");
  expect_both_refused("nul", std::string("{\"model\": \0}", 12));
  expect_both_refused("lists", std::string(100'000, '['));
  expect_both_refused("open", std::string(50'000, '{'));
  std::string maps;
  for (int i = 0; i < 20'000; ++i) maps += "{\"a\": ";
  expect_both_refused("maps", maps);
  expect_both_refused("dashes", [] {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "- ";
    return text;
  }());
  expect_both_refused("number", "1");
  expect_both_refused("text", "to be or not to be");
  expect_both_refused("large", std::string((size_t{16} << 20) + 1, ' '));
}

TEST_F(BadFile, MayBeCutShortAnywhere) {
  const std::string scenario = read_file("scenarios/dynamic-graphs/deepspeed-5828.yaml");
  const std::string until_program = scenario.substr(0, scenario.find("program:"));
  for (size_t length = 1; length < until_program.size(); length += until_program.size() / 12) {
    expect_refused(
        shell("zero3sim run " + shell_quoted(folder.write("cut.yaml", scenario.substr(0, length)))),
        "cut at " + std::to_string(length));
  }
  const std::string model = R"({"model": {"root": {"p": [64], "c": ["A"]}, "A": {"p": [8], "c": []}}})";
  for (size_t length = 0; length < model.size(); length += 3) {
    expect_refused(
        shell("zero3sim try t:A --model " + shell_quoted(folder.write("cut.json", model.substr(0, length)))),
        "cut at " + std::to_string(length));
  }
  EXPECT_EQ(shell("zero3sim try t:A --model " + shell_quoted(folder.write("whole.json", model))).exit_code,
            0);
}

TEST_F(BadFile, MayBeMissingOrAFolder) {
  const std::string missing = folder.path("missing");
  for (const std::string command : {"run ", "list ", "try t:A --model "}) {
    const Outcome outcome = shell("zero3sim " + command + shell_quoted(missing));
    expect_refused(outcome, command);
    EXPECT_THAT(outcome.errors, HasSubstr("No such file or directory")) << command;
  }
  folder.write("none/readme.txt", "no scenario here");
  for (const std::string command : {"run ", "list "}) {
    const Outcome outcome = shell("zero3sim " + command + shell_quoted(folder.path("none")));
    expect_refused(outcome, command);
    EXPECT_THAT(outcome.errors, HasSubstr("no scenario below this folder")) << command;
    EXPECT_THAT(outcome.errors, HasSubstr(".yaml")) << command;
  }
  expect_refused(shell("zero3sim try t:A --model " + shell_quoted(folder.path("none"))),
                 "a folder as a model");
}

struct BadModel {
  std::string json;
  std::string message;
};

TEST_F(BadFile, MayBeAModelThatCannotBe) {
  const std::string two = R"({"model": {"root": {"p": [64], "c": ["A"]}, "A": {"p": [8]}}, )";
  for (const BadModel& bad : std::vector<BadModel>{
           {R"({"model": {}})", "no module \"root\""},
           {R"({"model": {"root": {"p": [-1]}}})", "element count"},
           {R"({"model": {"root": {"p": [1.5]}}})", "element count"},
           {R"({"model": {"root": {"p": [1e30]}}})", "element count"},
           {R"({"model": {"root": {"p": [18446744073709551615]}}})", "element count"},
           {R"({"model": {"root": {"p": 64}}})", "list of element counts"},
           {R"({"model": {"root": {"c": ["root"]}}})", "contains itself"},
           {R"({"model": {"root": {"c": ["A"]}, "A": {"c": ["B"]}, "B": {"c": ["A"]}}})", "contains itself"},
           {R"({"model": {"root": {"c": ["Q"]}}})", "unknown module \"Q\""},
           {R"({"model": {"root": {"size": 1}}})", "unknown key \"size\""},
           {two + R"("depth": 1})", "unknown key \"depth\""},
           {two + R"("shared": [["A"]]})", "\"shared\" is not a list"},
           {two + R"("shared": [["A", "root"]]})", "contains itself"},
           {two + R"("frozen": ["A.p9"]})", "unknown param \"A.p9\""},
           {two + R"("frozen": ["A"]})", "unknown param \"A\""},
           {two + R"("leaf": ["Q"]})", "unknown module \"Q\""},
           {two + R"("leaf": "A"})", "\"leaf\" is not a list"},
           {two + R"("outs": {"A": 0}})", "outputs"},
           {two + R"("outs": {"A": 1000000000000}})", "outputs"},
           {two + R"("external": [["A"]]})", "\"external\" is not a list"},
           {two + R"("uses": [["A", "B.p0"]]})", "unknown param \"B.p0\""},
           {two + R"("ckpt": ["Q"]})", "unknown module \"Q\""},
           {two + R"("ckpt_reentrant": 1})", "not true or false"},
           {two + R"("no_optimizer": "yes"})", "not true or false"}}) {
    const std::string path = folder.write("model.json", bad.json);
    const Outcome outcome = shell("zero3sim try t:A --model " + shell_quoted(path));
    expect_refused(outcome, bad.json);
    EXPECT_THAT(outcome.errors, StartsWith(path + ":1:")) << bad.json;
    EXPECT_THAT(outcome.errors, HasSubstr(bad.message)) << bad.json;
    EXPECT_THAT(outcome.errors, HasSubstr("^")) << bad.json;
  }
}

TEST_F(BadFile, MayBeAScenarioThatCannotBe) {
  const std::string head = "zero3sim: 1\nmodel: {children: {A: \"Linear(8, 8)\"}}\n";
  for (const BadModel& bad : std::vector<BadModel>{
           {"zero3sim: 2\n", "newer than this program"},
           {"zero3sim: one\n", ""},
           {head + "program: [{train: B}]\n", "B"},
           {head + "program: [{dance: A}]\n", "dance"},
           {head + "program: [train]\nextra: 1\n", "extra"},
           {head + "program: [train]\nranks: -1\n", ""},
           {head + "program: [train]\nranks: 99999999999999999999\n", ""},
           {head + "program: [train]\ndeepspeed_config: {zero_optimization: {stage: 2}}\n", "stage"},
           {head + "program: [train]\ndeepspeed_config: {zero_optimization: {stage: 3, "
                   "stage3_prefetch_bucket_size: auto}}\n",
            "auto"},
           {head + "program: [train]\ndeepspeed_config: {zero_optimization: {stage: 3, "
                   "stage3_prefetch_bucket_size: -1}}\n",
            "stage3_prefetch_bucket_size"},
           {head + "program: [train]\nexpect: [{deepspeed: 0.15.99, outcome: completes}]\n", "0.15.99"},
           {head + "program: [train]\nexpect: [{deepspeed: all, outcome: explodes}]\n", "explodes"},
           {head + "program: [train]\nexpect: [{deepspeed: all, failure: nonsense}]\n", "nonsense"},
           {head + "program: [train]\nexpect: [{deepspeed: all, failure: IF, status: LOST}]\n", "LOST"},
           {"zero3sim: 1\nmodel: {children: {A: {params: {w: [-4]}}}}\nprogram: [train]\n", ""},
           {"zero3sim: 1\nmodel: {children: {A: {same_as: A}}}\nprogram: [train]\n", ""}}) {
    const std::string path = folder.write("scenario.yaml", bad.json);
    const Outcome outcome = shell("zero3sim run " + shell_quoted(path));
    expect_refused(outcome, bad.json);
    EXPECT_THAT(outcome.errors, StartsWith(path + ":")) << bad.json;
    EXPECT_THAT(outcome.errors, HasSubstr(bad.message)) << bad.json;
    EXPECT_THAT(outcome.errors, HasSubstr("^")) << bad.json;
  }
}

class BadTrace : public ::testing::Test {
 protected:
  Outcome try_with(const std::string& trace) {
    return shell("zero3sim try 't:ABC t:ABC' --trace " + shell_quoted(folder.path(trace)));
  }
  Folder folder;
};

TEST_F(BadTrace, IsNotHalfWritten) {
  expect_refused(try_with("missing/trace"), "a missing folder");
  EXPECT_THAT(folder.names(), IsEmpty());
  std::filesystem::create_directory(folder.path("folder"));
  expect_refused(try_with("folder"), "a folder");
  EXPECT_THAT(folder.names(), ElementsAre("folder"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("folder")));
}

TEST_F(BadTrace, NeedsOneRun) {
  expect_refused(
      shell("zero3sim try t:ABC --deepspeed '0.15.2, 0.15.3' --trace " + shell_quoted(folder.path("trace"))),
      "two releases");
  expect_refused(shell("zero3sim run scenarios/dynamic-graphs --trace " + shell_quoted(folder.path("trace"))),
                 "several files");
  EXPECT_THAT(folder.names(), IsEmpty());
}

// An option that has no effect would be a lie.
TEST_F(BadTrace, IsWrittenOrRefusedBesideEvents) {
  const Outcome outcome = shell("zero3sim try t:ABC --events --trace " + shell_quoted(folder.path("trace")));
  if (outcome.exit_code == 0) {
    EXPECT_THAT(folder.names(), ElementsAre("trace"));
  } else {
    expect_refused(outcome, "--events and --trace");
  }
}

// /dev/full as root, in a folder where replacing it does no harm.
TEST_F(BadTrace, LeavesADeviceADevice) {
  const std::string device = folder.path("full");
  if (shell("mknod " + shell_quoted(device) + " c 1 7").exit_code != 0) GTEST_SKIP() << "mknod needs root";
  expect_refused(try_with("full"), "a full device");
  EXPECT_TRUE(std::filesystem::is_character_file(device));
  EXPECT_THAT(folder.names(), ElementsAre("full"));
}

TEST_F(BadTrace, ReplacesAnOldFileOnlyWhenItIsWhole) {
  folder.write("trace", "old\n");
  EXPECT_EQ(try_with("trace").exit_code, 0);
  EXPECT_THAT(read_file(folder.path("trace")), StartsWith("{\"format\":\"zero3sim-trace\""));
  EXPECT_THAT(folder.names(), ElementsAre("trace"));
}

}  // namespace
}  // namespace zero3::cli_test
