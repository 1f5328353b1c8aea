// zero3sim fixes at the command line: exit codes, what is written, what it refuses.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/fixes/catalogue.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;

const std::string kSkipped = "zero3sim fixes scenarios/dynamic-graphs/deepspeed-5828.yaml";
constexpr int kBadInput = 2;

void expect_refused(const std::string& command, const std::string& message, const std::string& advice) {
  const Outcome outcome = shell(command);
  EXPECT_EQ(outcome.exit_code, kBadInput) << command;
  EXPECT_EQ(outcome.out, "") << command;
  EXPECT_THAT(outcome.errors, HasSubstr(message)) << command;
  EXPECT_THAT(outcome.errors, HasSubstr(advice)) << command;
}

TEST(Fixes, ExitWithWhetherSomethingCures) {
  EXPECT_EQ(shell(kSkipped).exit_code, 0);
  EXPECT_EQ(shell(kSkipped + " --fix no-reuse").exit_code, 1);
  EXPECT_EQ(shell(kSkipped + " --deepspeed 0.19.8").exit_code, 4);
  EXPECT_EQ(shell(kSkipped + " --deepspeed all").exit_code, 0);
}

TEST(Fixes, FoldReleasesThatAreTheSame) {
  const Outcome outcome = shell(kSkipped + " --deepspeed '0.15.0 - 0.15.4' --fix no-prefetch");
  EXPECT_THAT(outcome.out,
              HasSubstr("deepspeed-5828 on DeepSpeed 0.15.0 - 0.15.2, 1 rank: inflight-at-reset"));
  EXPECT_THAT(outcome.out, HasSubstr("deepspeed-5828 on DeepSpeed 0.15.3 - 0.15.4, 1 rank: nothing to cure"));
}

TEST(Fixes, TakeTheNameThatTheFileGives) {
  const auto by_file = nlohmann::json::parse(shell(kSkipped + " --fix 'no prefetch' --format json").out);
  ASSERT_EQ(by_file["fixes"].size(), 1U);
  EXPECT_EQ(by_file["fixes"][0]["fix"], "no-prefetch");
  EXPECT_EQ(by_file["fixes"][0]["in_file"][0], "no prefetch");
  EXPECT_EQ(by_file["releases"][0], "0.15.2");
  EXPECT_EQ(by_file["ends"]["outcome"], "inflight-at-reset");
  EXPECT_EQ(by_file["fixes"][0]["holds"], true);
}

// What is written runs by itself: the changed program completes, the counterexample ends as was said.
TEST(Fixes, WriteWhatTheyChanged) {
  Folder folder;
  const std::string path = folder.path("fixed.jsonl");
  const std::string write = " --deepspeed 0.15.2 --format json --write " + shell_quoted(path);
  EXPECT_EQ(shell(kSkipped + " --fix discard-skipped" + write).exit_code, 0);
  EXPECT_EQ(shell("zero3sim replay " + shell_quoted(path) + " --deepspeed 0.15.2").exit_code, 0);
  const auto partly = nlohmann::json::parse(
      shell("zero3sim fixes scenarios/dynamic-graphs/layerdrop-m2m100.yaml --fix persist-skipped" + write)
          .out);
  ASSERT_TRUE(partly["fixes"][0]["counterexample"].is_object());
  const Outcome both = shell("zero3sim replay " + shell_quoted(path) + " --deepspeed 0.15.2");
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.out, HasSubstr(": completes"));
  EXPECT_THAT(both.out, HasSubstr(": inflight-at-reset"));
}

TEST(Fixes, OfARunFile) {
  Folder folder;
  const std::string path = folder.path("run.jsonl");
  shell("zero3sim unroll --program 't:ABC t:ABC t:AC' --ranks 2 -o " + shell_quoted(path));
  const auto report = nlohmann::json::parse(shell("zero3sim fixes --format json " + shell_quoted(path)).out);
  EXPECT_EQ(report["ranks"], 2);
  EXPECT_EQ(report["world_sizes"].size(), 4U);
  EXPECT_EQ(report["smallest"].is_string(), true);
}

TEST(Fixes, RefuseWhatTheyCannotDo) {
  expect_refused("zero3sim fixes", "files is required", "");
  expect_refused(kSkipped + " --deepspeed 0.15.9", "0.15.9", "");
  expect_refused(kSkipped + " --fix nonsense", "no fix 'nonsense' was tried", "one of: ");
  expect_refused(kSkipped + " --deepspeed 0.19.8 --fix no-prefetch", "no fix 'no-prefetch' was tried",
                 "there is nothing to cure");
  expect_refused(kSkipped + " --write x.jsonl", "--fix", "");
  expect_refused(kSkipped + " --fix newer-release --write x.jsonl",
                 "--write: newer-release changes the release and not the program", "of that release");
  expect_refused(kSkipped + " --deepspeed '0.15.2, 0.19.8' --fix no-prefetch --write x.jsonl",
                 "--write takes one program on one release", "name one of each");
  expect_refused(kSkipped + " --fix prefetch-below --write /nowhere/x.jsonl", "", "");
}

// The table of known fixes is the one in the code.
TEST(Fixes, AreInTheirDocument) {
  const std::string document = read_file("docs/fixes.md");
  const std::string catalogue = read_file("docs/failure-catalogue.md");
  const std::string silent = read_file("docs/silent-faults.md");
  size_t at = 0;
  for (const sim::KnownFix& known : sim::known_fixes()) {
    const std::string row = "| `" + std::string(known.id) + "` | " + std::string(known.what) + " | ";
    const size_t found = document.find(row, at);
    ASSERT_NE(found, std::string::npos) << row;
    at = found;
    EXPECT_THAT(first_line(document.substr(at)),
                HasSubstr(std::string(known.source).substr(known.source.find('#'))));
    std::string words(known.tried_for);
    std::ranges::replace(words, ' ', '\n');
    for (const std::string& word : lines_of(words)) {
      EXPECT_THAT(first_line(document.substr(at)), HasSubstr(word));
      const bool is_known = word == "wrong-data" || catalogue.find(word + " (") != std::string::npos ||
                            silent.find("| `" + word) != std::string::npos;
      EXPECT_TRUE(is_known) << word;
    }
  }
}

}  // namespace
}  // namespace zero3::cli_test
