// zero3sim bisect, upgrade and regress as people and CI call them: exit codes, files, what is wrong with the input.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::string kSkipped = "scenarios/dynamic-graphs/deepspeed-5828.yaml";
const std::string kStatic = "scenarios/controls/static-mlp.yaml";
const std::string kRecorded = "docs/examples/train.v0.15.2.jsonl";

// #6557 is what cures DeepSpeed#5828, of a scenario and of a recorded run alike.
TEST(BisectCommand, NamesReleasePullRequestAndFlag) {
  for (const std::string& program : {kSkipped, kRecorded}) {
    const Outcome outcome = shell("zero3sim bisect " + program + " --good 0.19.8 --bad 0.10.0 --format json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    const json report = json::parse(outcome.out);
    EXPECT_EQ(report.at("first_bad"), "0.15.2");
    EXPECT_THAT(report.at("sources").front().get<std::string>(), StartsWith("#6557"));
    EXPECT_THAT(
        report.at("changes").front().at("deciding").front().at("flags").front().at("flag").get<std::string>(),
        HasSubstr("inflight"));
    EXPECT_EQ(shell(report.at("reproduce").get<std::string>() + " --format json").errors, "");
  }
}

TEST(BisectCommand, Refuses) {
  const Outcome alike = shell("zero3sim bisect " + kSkipped + " --good 0.15.3 --bad 0.19.8");
  EXPECT_EQ(alike.exit_code, 2);
  EXPECT_THAT(alike.errors, HasSubstr("deepspeed-5828 ends alike on 0.15.3 and 0.19.8: ok"));
  const Outcome between = shell("zero3sim bisect " + kSkipped + " --good 0.15.7 --bad 0.15.2");
  EXPECT_EQ(between.exit_code, 2);
  EXPECT_THAT(between.errors, HasSubstr("the known releases around it are 0.15.4 and 0.16.0"));
  EXPECT_EQ(shell("zero3sim bisect " + kSkipped + " --good all --bad 0.15.2").exit_code, 2);
  const Outcome several = shell("zero3sim bisect scenarios/dynamic-graphs --good 0.15.3 --bad 0.15.2");
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_THAT(several.errors, HasSubstr("bisect takes one program"));
  EXPECT_EQ(shell("zero3sim bisect missing.yaml --good 0.15.3 --bad 0.15.2").exit_code, 2);
}

TEST(UpgradeCommand, ExitCodes) {
  EXPECT_EQ(shell("zero3sim upgrade --from 0.15.2 --to 0.15.3 " + kSkipped + " " + kStatic).exit_code, 0);
  EXPECT_EQ(shell("zero3sim upgrade --from 0.15.3 --to 0.15.2 " + kSkipped + " " + kStatic).exit_code, 1);
  EXPECT_EQ(
      shell("zero3sim upgrade --from 0.19.8 --to 0.5.10 scenarios/controls/static-llama.yaml").exit_code, 0);
  EXPECT_EQ(shell("zero3sim upgrade --strict --from 0.19.8 --to 0.5.10 scenarios/controls/static-llama.yaml")
                .exit_code,
            1);
  EXPECT_EQ(shell("zero3sim upgrade --from 0.15.2 --to 0.15.2 " + kSkipped).exit_code, 2);
  const Outcome between = shell("zero3sim upgrade --from 0.15.2 --to 0.15.7 " + kSkipped);
  EXPECT_EQ(between.exit_code, 2);
  EXPECT_THAT(between.errors, HasSubstr("--to:1:1"));
}

TEST(UpgradeCommand, BadInputIsNamedAndTheRestRuns) {
  const Outcome outcome = shell("zero3sim upgrade --from 0.15.3 --to 0.15.2 missing.yaml " + kSkipped);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("missing.yaml"));
  EXPECT_THAT(outcome.out, HasSubstr("gained: inflight-at-reset"));
}

TEST(UpgradeCommand, WritesJunit) {
  const Folder folder;
  const std::string file = folder.path("upgrade.xml");
  EXPECT_EQ(shell("zero3sim upgrade --from 0.15.3 --to 0.15.2 " + kSkipped + " --format junit --out " +
                  shell_quoted(file))
                .exit_code,
            1);
  EXPECT_THAT(read_file(file), HasSubstr("<testsuite name=\"zero3sim upgrade\" tests=\"1\" failures=\"1\""));
}

TEST(RegressCommand, WritesComparesAccepts) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  const std::string programs = " " + kSkipped + " " + kRecorded + " " + kStatic;
  const Outcome written = shell("zero3sim regress " + base + " --write" + programs + " --deepspeed 0.15.2");
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_THAT(written.out, HasSubstr("3 programs on 0.15.2 written"));
  EXPECT_EQ(shell("zero3sim regress " + base).exit_code, 0);  // the baseline's own programs and releases
  const Outcome changed = shell("zero3sim regress " + base + " --deepspeed 0.15.3");
  EXPECT_EQ(changed.exit_code, 1);
  EXPECT_THAT(changed.out, HasSubstr("deepspeed-5828, 1 rank, on 0.15.3 (the baseline's 0.15.2): end"));
  const Outcome accepted = shell("zero3sim regress " + base + " --deepspeed 0.15.3 --accept");
  EXPECT_EQ(accepted.exit_code, 0) << accepted.out;
  const Outcome now = shell("zero3sim regress " + base + " --deepspeed 0.15.3");
  EXPECT_EQ(now.exit_code, 0) << now.out;
  EXPECT_THAT(now.out, HasSubstr("0 differences, "));
  EXPECT_THAT(folder.names(), ElementsAre("base.json"));  // nothing half written beside it
}

// Of ranks and seed the baseline knows its own.
TEST(RegressCommand, KeepsRanksAndSeed) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  const std::string file = "scenarios/dynamic-graphs/stochastic-depth-vit.yaml";
  const Outcome written = shell("zero3sim regress " + base + " --write " + file + " --ranks 2 --seed 7");
  EXPECT_EQ(written.exit_code, 0) << written.errors;
  EXPECT_EQ(shell("zero3sim regress " + base).exit_code, 0);
  EXPECT_EQ(shell("zero3sim regress " + base + " " + file).exit_code, 1);  // the scenario's own ranks
}

// What is only in the baseline, or only named, is a difference.
TEST(RegressCommand, ProgramsThatAreNotTheBaselines) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  shell("zero3sim regress " + base + " --write " + kSkipped + " --deepspeed 0.15.2");
  const Outcome outcome = shell("zero3sim regress " + base + " " + kStatic);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("not in the baseline"));
  EXPECT_THAT(outcome.out, HasSubstr("not among the programs"));
}

TEST(RegressCommand, RefusesBaselines) {
  const Folder folder;
  const Outcome missing = shell("zero3sim regress " + shell_quoted(folder.path("none.json")) + " " + kStatic);
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("none.json"));
  const std::string newer =
      folder.write("newer.json", R"({"zero3sim_baseline": 2, "programs": [], "accepted": []})");
  const Outcome version = shell("zero3sim regress " + shell_quoted(newer));
  EXPECT_EQ(version.exit_code, 2);
  EXPECT_THAT(version.errors, HasSubstr("a baseline of format version 2; this zero3sim reads version 1"));
  EXPECT_EQ(shell("zero3sim regress " + shell_quoted(newer) + " --write --accept " + kStatic).exit_code, 2);
  const Outcome nowhere = shell("zero3sim regress /nowhere/base.json --write " + kStatic);
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.errors, HasSubstr("cannot write the baseline /nowhere/base.json"));
  const Outcome python =
      shell("zero3sim regress " + shell_quoted(folder.write("base.json", "")) + " --python /nowhere/python");
  EXPECT_EQ(python.exit_code, 2);  // the baseline is read first
}

TEST(RegressCommand, SaysWhereItsPathsStart) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  shell("zero3sim regress " + base + " --write " + kStatic + " --deepspeed 0.15.2");
  const Outcome elsewhere = shell("cd / && zero3sim regress " + base);
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.errors,
              HasSubstr("base.json: none of its programs is here, " + kStatic + " for one"));
  EXPECT_THAT(elsewhere.errors, HasSubstr("run zero3sim there, or name the programs"));
}

TEST(RegressCommand, NoDeepSpeedIsItsOwnExitCode) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  shell("zero3sim regress " + base + " --write " + kStatic + " --deepspeed 0.15.2");
  EXPECT_EQ(shell("zero3sim regress " + base + " --python /nowhere/python").exit_code, 5);
}

// A recorded run is its script's: neither run for real, nor undecided.
TEST(RegressCommand, HoldsRecordedRunsAgainstTheModelAlone) {
  const Folder folder;
  const std::string base = shell_quoted(folder.path("base.json"));
  shell("zero3sim regress " + base + " --write " + kRecorded + " --deepspeed 0.15.2");
  const std::string fake = "FAKE_PROBE_TRACE=tests/sim/verify/v0.15.2.skipped-layer.jsonl zero3sim regress " +
                           base + " --python tests/sim/verify/fake_probe";
  const Outcome outcome = shell(fake);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("recorded, so held against the model of DeepSpeed 0.15.2 alone"));
  EXPECT_THAT(shell(fake + " --format json").out, HasSubstr("\"undecided\": [],\n  \"not_run\": [\n"));
}

// A program that cannot be read must not vanish from a new baseline.
TEST(RegressCommand, WritesNothingWhereAProgramIsWrong) {
  const Folder folder;
  const Outcome outcome = shell("zero3sim regress " + shell_quoted(folder.path("base.json")) +
                                " --write missing.yaml " + kStatic);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace zero3::cli_test
