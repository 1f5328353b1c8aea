// What a scenario expects of which release, and what counts as different.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::HasSubstr;

Scenario expecting(const std::string& items) {
  return scenario(kThreeLayers + "program: [train]\nexpect:\n" + items);
}

std::optional<Expectation> expected(const Scenario& given, const char* release) {
  return given.expected_for(*Release::parse(release), given.ranks);
}

TEST(ScenarioExpectation, RangesOfReleases) {
  const Scenario given = expecting(
      "  - {deepspeed: 0.5.11-dev - 0.9.5, failure: IF, params: [fc2.weight]}\n"
      "  - {deepspeed: \">= 0.15.3, 0.4.4\", outcome: completes}\n");
  EXPECT_FALSE(expected(given, "0.5.10"));
  EXPECT_EQ(expected(given, "0.5.11-dev")->failure, FailureKind::kInflightAtReset);
  EXPECT_EQ(expected(given, "0.9.5")->failure, FailureKind::kInflightAtReset);
  EXPECT_FALSE(expected(given, "0.10.0"));
  EXPECT_EQ(expected(given, "0.19.8")->failure, std::nullopt);
  EXPECT_EQ(expected(given, "0.4.4")->failure, std::nullopt);
  EXPECT_FALSE(expected(given, "0.4.5"));
}

// A file that says how many ranks says what happens on so many.
TEST(ScenarioExpectation, HoldsOnTheFilesOwnRanks) {
  const std::string rest =
      kThreeLayers + "program: [train]\nexpect: [{deepspeed: all, outcome: completes}]\n";
  const Release newest = known_releases().back();
  EXPECT_TRUE(scenario("ranks: 2\n" + rest).expected_for(newest, 2));
  EXPECT_FALSE(scenario("ranks: 2\n" + rest).expected_for(newest, 1));
  EXPECT_FALSE(scenario("ranks: 2\n" + rest).expected_for(newest, 4));
  EXPECT_TRUE(scenario(rest).expected_for(newest, 4));
}

TEST(ScenarioExpectation, ReleasesThatAreNotThere) {
  EXPECT_EQ(
      error_of(kThreeLayers + "program: [train]\nexpect:\n  - {deepspeed: 0.15.9, outcome: completes}\n"),
      "x.yaml:5:17: error: unknown release 0.15.9\n"
      "    - {deepspeed: 0.15.9, outcome: completes}\n"
      "                  ^\n"
      "  the known releases around it are 0.15.4 and 0.16.0");
  EXPECT_THAT(
      error_of(kThreeLayers + "program: [train]\nexpect:\n  - {deepspeed: newest, outcome: completes}\n"),
      HasSubstr("'newest' is not a release"));
  EXPECT_THAT(error_of(kThreeLayers +
                       "program: [train]\nexpect:\n  - {deepspeed: 0.9.0 - 0.8.0, outcome: completes}\n"),
              HasSubstr("the range 0.9.0 - 0.8.0 is empty"));
}

TEST(ScenarioExpectation, TwoForOneRelease) {
  EXPECT_EQ(error_of(kThreeLayers + "program: [train]\nexpect:\n"
                                    "  - {deepspeed: 0.6.0 - 0.9.0, failure: IF}\n"
                                    "  - {deepspeed: \">= 0.9.0\", outcome: completes}\n"),
            "x.yaml:6:5: error: a second expectation for 0.9.0\n"
            "    - {deepspeed: \">= 0.9.0\", outcome: completes}\n"
            "      ^\n"
            "  the first is in line 5");
}

TEST(ScenarioExpectation, UnknownFailuresAndStatuses) {
  EXPECT_EQ(error_of(kThreeLayers +
                     "program: [train]\nexpect:\n  - {deepspeed: all, failure: inflight-on-reset}\n"),
            "x.yaml:5:31: error: unknown failure 'inflight-on-reset'\n"
            "    - {deepspeed: all, failure: inflight-on-reset}\n"
            "                                ^\n"
            "  did you mean 'inflight-at-reset'?");
  EXPECT_EQ(error_of(kThreeLayers +
                     "program: [train]\nexpect:\n  - {deepspeed: all, failure: IF, status: FLYING}\n"),
            "x.yaml:5:43: error: unknown status 'FLYING'\n"
            "    - {deepspeed: all, failure: IF, status: FLYING}\n"
            "                                            ^\n"
            "  AVAILABLE, INFLIGHT or NOT_AVAILABLE");
  EXPECT_THAT(error_of(kThreeLayers +
                       "program: [train]\nexpect:\n  - {deepspeed: all, outcome: completes, rank: 1}\n"),
              HasSubstr("'rank' says something of a failure, and none is expected"));
}

TEST(ScenarioExpectation, ARankOutsideTheWorld) {
  EXPECT_EQ(error_of(kThreeLayers + "ranks: 2\nprogram: [train]\nexpect:\n"
                                    "  - {deepspeed: all, failure: hang, rank: 2}\n"),
            "x.yaml:6:43: error: rank 2 of 2 rank(s)\n"
            "    - {deepspeed: all, failure: hang, rank: 2}\n"
            "                                            ^\n"
            "  ranks count from 0; 'ranks:' at the top says how many there are");
}

TEST(ScenarioExpectation, NoFailureKindAtAll) {
  EXPECT_THAT(error_of(kThreeLayers + "program: [train]\nexpect:\n  - {deepspeed: all, failure: explodes}\n"),
              HasSubstr("x.yaml:5:31: error: unknown failure 'explodes'"));
  EXPECT_THAT(error_of(kThreeLayers + "program: [train]\nexpect:\n  - {deepspeed: all}\n"),
              HasSubstr("x.yaml:5:5: error: an expectation is either an outcome or a failure"));
}

TEST(ScenarioExpectation, PrintedLines) {
  const Expectation wanted = *expected(
      expecting("  - {deepspeed: all, outcome: completes, prints: [\"Invalidate ...\"]}\n"), "0.15.2");
  Ending ending;
  EXPECT_EQ(difference(wanted, ending), "") << "nothing is known of what it printed";
  ending.printed = {"Invalidate ..."};
  EXPECT_EQ(difference(wanted, ending), "");
  ending.printed = std::vector<std::string>{};
  EXPECT_EQ(difference(wanted, ending), "expected it to print Invalidate ..., got none");
  EXPECT_THAT(error_of(kThreeLayers +
                       "program: [train]\nexpect:\n  - {deepspeed: all, outcome: completes, prints: no}\n"),
              HasSubstr("x.yaml:5:50: error: prints must be a list"));
}

TEST(ScenarioExpectation, ADifferenceIsTold) {
  const Expectation wanted = *expected(expecting("  - {deepspeed: all, failure: inflight-at-reset, params: "
                                                 "[fc2.weight], status: INFLIGHT, text: inflight params, "
                                                 "at: \"train: fc1\", step: 3, rank: 0}\n"),
                                       "0.15.2");
  const Ending as_expected{.failure = FailureKind::kInflightAtReset,
                           .text = "still have inflight params [...]",
                           .rank = 0,
                           .statement = 2,
                           .statement_text = "train: fc1 fc2",
                           .params = {{"fc2.weight", ZeroParamStatus::kInflight}}};
  EXPECT_EQ(difference(wanted, as_expected), "");
  EXPECT_EQ(difference(wanted, {}), "expected inflight-at-reset, got completes");
  Ending ending = as_expected;
  ending.params = {{"fc1.weight", ZeroParamStatus::kInflight}};
  EXPECT_EQ(difference(wanted, ending), "expected the params fc2.weight, got fc1.weight");
  ending = as_expected;
  ending.params[0].status = ZeroParamStatus::kAvailable;
  EXPECT_EQ(difference(wanted, ending), "expected fc2.weight to be INFLIGHT, got AVAILABLE");
  ending = as_expected;
  ending.text = "other";
  EXPECT_EQ(difference(wanted, ending), "expected the text 'inflight params'");
  ending = as_expected;
  ending.statement_text = "evaluate";
  EXPECT_EQ(difference(wanted, ending), "expected it at 'train: fc1', got 'evaluate'");
  ending = as_expected;
  ending.statement = 3;
  EXPECT_EQ(difference(wanted, ending), "expected it at step 3, got 4");
  ending = as_expected;
  ending.rank = 1;
  EXPECT_EQ(difference(wanted, ending), "expected it on rank 0, got 1");
}

TEST(ScenarioFixes, AreCheckedAndKept) {
  const Scenario given = scenario(kThreeLayers + R"(program: [train]
fixes:
  - {name: no prefetch, setting: {zero_optimization: {stage: 3, stage3_prefetch_bucket_size: 0}}}
  - {name: always fc2, program: [{train: fc1 act fc2}]}
  - {release: ">= 0.15.3"}
)");
  ASSERT_EQ(given.fixes.size(), 3u);
  EXPECT_EQ(given.fixes[0].kind, Fix::Kind::kSetting);
  EXPECT_EQ(given.fixes[1].kind, Fix::Kind::kProgram);
  EXPECT_EQ(given.fixes[1].value, "{train: fc1 act fc2}");
  EXPECT_EQ(given.fixes[2].name, ">= 0.15.3");
  EXPECT_THAT(error_of(kThreeLayers + "program: [train]\nfixes: [{name: nothing}]\n"),
              HasSubstr("a fix is one of setting, program, release"));
}

}  // namespace
}  // namespace zero3::sim
