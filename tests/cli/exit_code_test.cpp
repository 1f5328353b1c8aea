// Each verdict's exit code, on every command that can give it (the design's rule 4).
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kAsExpected = 0;
constexpr int kNotAsExpected = 1;
constexpr int kBadInput = 2;
constexpr int kHang = 3;
constexpr int kInconclusive = 4;

// A layer skipped after two iterations: still in flight at the reset from v0.6.0 to v0.15.2 (DeepSpeed#5828).
std::string skipped_layer(const std::string& expectations) {
  return "zero3sim: 1\n"
         "model: {children: {A: \"Linear(8, 8)\", B: \"Linear(8, 8)\", C: \"Linear(8, 8)\"}}\n"
         "deepspeed_config: {zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}}\n"
         "program: [{repeat: 2, do: [train]}, train: A C]\n" +
         expectations;
}

// Rank 1 skips a layer of another size than the next, with nothing prefetched: rank 0 waits in a gather of B's weight
// that rank 1 never joins.
constexpr const char* kRanksPart =
    "zero3sim: 1\n"
    "ranks: 2\n"
    "model: {children: {A: \"Linear(8, 8)\", B: \"Linear(16, 16)\", C: \"Linear(32, 32)\"}}\n"
    "deepspeed_config: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: 0,"
    " stage3_param_persistence_threshold: 0}}\n"
    "program:\n"
    "  - repeat: 2\n"
    "    do: [train]\n"
    "  - when: {rank: [1]}\n"
    "    do: [train: A C]\n"
    "    else: [train: A B C]\n";

class ExitCode : public ::testing::Test {
 protected:
  Outcome run(const std::string& scenario, const std::string& options) {
    return shell("zero3sim run " + shell_quoted(folder.write("a.yaml", scenario)) + " " + options);
  }
  Folder folder;
};

TEST_F(ExitCode, OfAFailureThatIsExpected) {
  const Outcome outcome =
      run(skipped_layer("expect: [{deepspeed: all, failure: inflight-at-reset, params: [B.bias, B.weight]}]"),
          "--deepspeed 0.15.2");
  const Outcome other_order =
      run(skipped_layer("expect: [{deepspeed: all, failure: inflight-at-reset, params: [B.weight, B.bias]}]"),
          "--deepspeed 0.15.2");
  // Which of the two comes first is the order of a Python set; by ds_id it is registration order.
  EXPECT_EQ(other_order.exit_code, kAsExpected) << other_order.out << other_order.errors;
  EXPECT_THAT(first_line(other_order.out), HasSubstr("inflight-at-reset (as expected)"));
  EXPECT_EQ(outcome.exit_code, kNotAsExpected);
}

TEST_F(ExitCode, OfARunThatCompletesAsExpected) {
  const Outcome outcome =
      run(skipped_layer("expect: [{deepspeed: all, outcome: completes}]"), "--deepspeed 0.15.3");
  EXPECT_EQ(outcome.exit_code, kAsExpected);
  EXPECT_THAT(first_line(outcome.out), HasSubstr("completes (as expected)"));
}

TEST_F(ExitCode, OfWhatIsNotExpected) {
  for (const std::string expectation :
       {"outcome: completes", "failure: partition-in-flight",
        "failure: inflight-at-reset, params: [C.weight]", "failure: inflight-at-reset, status: INFLIGHT",
        "failure: inflight-at-reset, step: 2", "failure: inflight-at-reset, prints: []",
        "failure: inflight-at-reset, text: Cannot partition"}) {
    const Outcome outcome =
        run(skipped_layer("expect: [{deepspeed: all, " + expectation + "}]"), "--deepspeed 0.15.2");
    EXPECT_EQ(outcome.exit_code, kNotAsExpected) << expectation << outcome.out << outcome.errors;
    EXPECT_THAT(first_line(outcome.out), HasSubstr("(not as expected)")) << expectation;
  }
  EXPECT_EQ(run(skipped_layer("ranks: 2\nexpect: [{deepspeed: all, failure: inflight-at-reset, rank: 1}]"),
                "--deepspeed 0.15.2")
                .exit_code,
            kNotAsExpected);
  const Outcome cured =
      run(skipped_layer("expect: [{deepspeed: all, failure: inflight-at-reset}]"), "--deepspeed 0.15.3");
  EXPECT_EQ(cured.exit_code, kNotAsExpected);
}

TEST_F(ExitCode, OfARunOfWhichNothingIsExpected) {
  for (const std::string expectations : {"", "expect: [{deepspeed: 0.15.3, outcome: completes}]"}) {
    for (const std::string release : {"0.15.2", "0.19.8"}) {
      const Outcome outcome = run(skipped_layer(expectations), "--deepspeed " + release);
      EXPECT_EQ(outcome.exit_code, kInconclusive) << outcome.out << outcome.errors;
      EXPECT_THAT(first_line(outcome.out), HasSubstr("(inconclusive)"));
    }
  }
}

TEST_F(ExitCode, OfAHang) {
  for (const std::string expectation : {"", "expect: [{deepspeed: all, outcome: completes}]\n"}) {
    const Outcome outcome = run(kRanksPart + expectation, "--deepspeed 0.15.2");
    EXPECT_EQ(outcome.exit_code, kHang) << outcome.out << outcome.errors;
    EXPECT_THAT(first_line(outcome.out), HasSubstr("2 ranks: hang (hang)"));
    EXPECT_THAT(outcome.out, HasSubstr("B.weight"));
    EXPECT_THAT(outcome.out, HasSubstr("C.weight"));
  }
  EXPECT_EQ(run(std::string(kRanksPart) + "expect: [{deepspeed: all, failure: hang}]\n", "").exit_code,
            kAsExpected);
  // Rank 1 alone is on the other branch, and what is expected is expected of the file's two ranks.
  const Outcome alone =
      run(std::string(kRanksPart) + "expect: [{deepspeed: all, failure: hang}]\n", "--ranks 1");
  EXPECT_EQ(alone.exit_code, kInconclusive);
  EXPECT_THAT(first_line(alone.out), HasSubstr("1 rank: completes (inconclusive)"));
}

TEST_F(ExitCode, OfSeveralRunsIsTheWorst) {
  // Failures first, then hangs, then what nobody expected: inconclusive is never success.
  const std::string good = shell_quoted(
      folder.write("good.yaml", skipped_layer("expect: [{deepspeed: all, outcome: completes}]")));
  const std::string bad = shell_quoted(
      folder.write("bad.yaml", skipped_layer("expect: [{deepspeed: all, failure: inflight-at-reset}]")));
  const std::string open = shell_quoted(folder.write("open.yaml", skipped_layer("")));
  const std::string hang = shell_quoted(folder.write("hang.yaml", kRanksPart));
  const auto exit_code = [](const std::string& files) {
    return shell("zero3sim run " + files + " --deepspeed 0.15.3").exit_code;
  };
  EXPECT_EQ(exit_code(good), kAsExpected);
  EXPECT_EQ(exit_code(good + " " + open), kInconclusive);
  EXPECT_EQ(exit_code(open + " " + hang + " " + good), kHang);
  EXPECT_EQ(exit_code(hang + " " + bad + " " + good), kNotAsExpected);
  EXPECT_EQ(exit_code(good + " " + bad + " " + shell_quoted(folder.path("missing.yaml"))), kBadInput);
}

TEST_F(ExitCode, OfSeveralReleases) {
  const std::string expectations =
      "expect: [{deepspeed: 0.6.2 - 0.15.2, failure: inflight-at-reset}, {deepspeed: \">= 0.15.3\", outcome: "
      "completes}]";
  const Outcome outcome = run(skipped_layer(expectations), "--deepspeed '0.15.1 - 0.15.4'");
  EXPECT_EQ(outcome.exit_code, kAsExpected) << outcome.out << outcome.errors;
  for (const std::string line :
       {"0.15.1, 1 rank: inflight-at-reset (as expected)", "0.15.2, 1 rank: inflight-at-reset (as expected)",
        "0.15.3, 1 rank: completes (as expected)", "0.15.4, 1 rank: completes (as expected)"}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
}

TEST_F(ExitCode, OfATriedProgram) {
  EXPECT_EQ(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.2").exit_code, kNotAsExpected);
  EXPECT_EQ(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.3").exit_code, kAsExpected);
  EXPECT_EQ(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed 0.15.2 --events").exit_code, kNotAsExpected);
  EXPECT_EQ(shell("zero3sim try 't:ABC t:ABC t:AC' --deepspeed '0.15.2, 0.15.3'").exit_code, kNotAsExpected);
}

TEST_F(ExitCode, OfHelpAndLists) {
  for (const std::string command : {"--help", "run --help", "try --help", "list --help", "releases --help",
                                    "list", "releases", "releases 0.15.2", "releases v0.15.2"}) {
    const Outcome outcome = shell("zero3sim " + command);
    EXPECT_EQ(outcome.exit_code, kAsExpected) << command << outcome.errors;
    EXPECT_NE(outcome.out, "") << command;
    EXPECT_EQ(outcome.errors, "") << command;
  }
  EXPECT_THAT(
      shell("zero3sim --help").out,
      HasSubstr(
          "0 as expected, 1 not as expected, 2 bad input, 3 hang, 4 inconclusive, 5 backend unavailable"));
}

TEST_F(ExitCode, OfOutputThatCannotBeWritten) {
  for (const std::string command : {"try t:ABC", "try t:ABC --events", "releases", "list"}) {
    const Outcome outcome = shell("zero3sim " + command + " > /dev/full");
    EXPECT_EQ(outcome.exit_code, kBadInput) << command;
    EXPECT_THAT(outcome.errors, StartsWith("error: cannot write to standard output")) << command;
  }
}

// The library of failures says of itself what each release does.
TEST_F(ExitCode, OfEveryScenarioOfTheLibrary) {
  const Outcome newest = shell("zero3sim run scenarios");
  EXPECT_EQ(newest.exit_code, kAsExpected) << newest.out << newest.errors;
  const Outcome all = shell("zero3sim run scenarios/ --deepspeed all");
  EXPECT_EQ(all.exit_code, kAsExpected) << all.out << all.errors;
  EXPECT_THAT(lines_of(all.out).back(), EndsWith(": all as expected"));
  EXPECT_THAT(all.out, HasSubstr("\nscenarios/saving/deepspeed-1686-shared-module.yaml "));
  EXPECT_THAT(all.out, Not(HasSubstr("canary")));
}

// Wrong on purpose: a table that cannot say so would say nothing.
TEST_F(ExitCode, OfTheCanary) {
  const Outcome outcome = shell("zero3sim run scenarios/canary --deepspeed all");
  EXPECT_EQ(outcome.exit_code, kNotAsExpected) << outcome.out << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr("\n  0.5.11-dev - 0.15.2: expected completes, got inflight-at-reset\n"
                                     "    reproduce: zero3sim run scenarios/canary/wrong-on-purpose.yaml "
                                     "--deepspeed 0.5.11-dev --ranks 1 --seed 0\n"));
  EXPECT_EQ(lines_of(outcome.out).back(), "1 scenario on 116 releases: 0 as expected");
}

// Several scenarios are a table; where nothing is expected on any release asked for, nothing is as expected.
TEST_F(ExitCode, OfAFolder) {
  folder.write("a.yaml", skipped_layer("expect: [{deepspeed: \">= 0.15.3\", outcome: completes}]"));
  folder.write("b.yaml", skipped_layer(""));
  folder.write("c.yaml", skipped_layer("expect: [{deepspeed: \">= 0.15.3\", failure: hang}]"));
  folder.write("d.yaml", kRanksPart);
  const auto run_folder = [this](const std::string& releases) {
    return shell("zero3sim run " + shell_quoted(folder.path("")) + " --deepspeed '" + releases + "'");
  };
  const Outcome outcome = run_folder("0.15.2, 0.15.3");
  EXPECT_EQ(outcome.exit_code, kNotAsExpected);
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 10U) << outcome.out << outcome.errors;
  EXPECT_THAT(lines[0], MatchesRegex("scenario +as expected  differ  nothing expected  cannot run"));
  EXPECT_THAT(lines[1], MatchesRegex(".*/a.yaml +1 +0 +1 +0"));
  EXPECT_THAT(lines[2], MatchesRegex(".*/b.yaml +0 +0 +2 +0"));
  EXPECT_THAT(lines[3], MatchesRegex(".*/c.yaml +0 +1 +1 +0"));
  EXPECT_EQ(lines[4], "  0.15.3: expected hang, got completes");
  EXPECT_THAT(lines[6], MatchesRegex(".*/d.yaml +0 +2 +0 +0"));
  EXPECT_EQ(lines[7], "  0.15.2 - 0.15.3: hangs, and nothing is expected");
  EXPECT_EQ(lines[9], "4 scenarios on 2 releases: 1 as expected");
  folder.write("c.yaml", "zero3sim: 1\nmodel: {preset: mlp, hidden_size: 8}\nprogram: [train]\n");
  EXPECT_EQ(run_folder("0.15.3").exit_code, kHang);
  folder.write("d.yaml", std::string(kRanksPart) + "expect: [{deepspeed: all, failure: hang}]\n");
  EXPECT_EQ(run_folder("0.15.3").exit_code, kInconclusive);
}

}  // namespace
}  // namespace zero3::cli_test
