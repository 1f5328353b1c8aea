// Baselines: written, read back, compared; what is accepted passes, what is not fails; other formats are refused.
#include "sim/regress/regression.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/release_selection.h"
#include "tests/support/tested_programs.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<Release> releases(const std::string& text) { return parse_releases(text, "--deepspeed"); }

TestedProgram tried(const std::string& name, const std::string& program) {
  return short_program(program, name, name + ".yaml");
}

std::string refusal(const std::string& text) {
  try {
    parse_baseline(text, "base.json");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TestedProgram skipped() { return tried("skipped", "t:ABC t:ABC t:AC"); }
TestedProgram cached() { return tried("cached", "t:ABC x"); }

TEST(Baseline, ReadsBackWhatWasWritten) {
  Baseline baseline = baseline_of({skipped(), cached()}, releases("all"));
  baseline.accepted.push_back({"skipped", 1, releases("0.15.3 - 0.16.0"), {"end", "a", "b"}, "known"});
  const std::string text = baseline_text(baseline);
  const Baseline read = parse_baseline(text, "base.json");
  EXPECT_EQ(baseline_text(read), text);
  ASSERT_THAT(read.programs, SizeIs(2));
  for (size_t i = 0; i < read.programs.front().outcomes.size(); ++i)
    EXPECT_EQ(read.programs.front().outcomes[i].outcome, baseline.programs.front().outcomes[i].outcome);
  EXPECT_THAT(compare(read, {skipped(), cached()}, releases("all")).regressions, IsEmpty());
}

TEST(Baseline, RefusesByName) {
  EXPECT_THAT(refusal("{\n  \"zero3sim_baseline\": 1,\n  oops\n}"),
              HasSubstr("base.json:3:3: error: this is no JSON"));
  EXPECT_THAT(refusal(""), HasSubstr("this is no JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no baseline: it has no zero3sim_baseline"));
  EXPECT_THAT(refusal(R"({"zero3sim_baseline": 2, "programs": [], "accepted": []})"),
              HasSubstr("a baseline of format version 2; this zero3sim reads version 1"));
  EXPECT_THAT(refusal(R"({"zero3sim_baseline": 1, "programs": [], "accepted": []})"),
              HasSubstr("a baseline without programs"));
  const std::string good = baseline_text(baseline_of({skipped()}, releases("0.15.2")));
  const auto with = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal(with("\"0.15.2\"", "\"0.15.7\"")),
              HasSubstr("programs[0].outcomes[0].deepspeed: unknown release 0.15.7"));
  EXPECT_THAT(refusal(with("\"0.15.2\"", "\"0.15.7\"")), HasSubstr("0.15.4 and 0.16.0"));
  EXPECT_THAT(refusal(with("\"fails\"", "\"well\"")),
              HasSubstr("programs[0].outcomes[0].outcome: end: 'well' is none"));
  EXPECT_THAT(refusal(with("\"ranks\": 1", "\"ranks\": \"1\"")),
              HasSubstr("programs[0]: ranks is missing or of another type"));
  EXPECT_THAT(refusal(with("\"ranks\": 1", "\"ranks\": 0")), HasSubstr("programs[0]: ranks is 0"));
  EXPECT_THAT(refusal(with("\"accepted\"", "\"Accepted\": 1, \"accepted\"")),
              HasSubstr("unknown key Accepted"));
  EXPECT_THAT(refusal(with("\"ranks\": 1", "\"ranks\": 1, \"rank\": 1")),
              HasSubstr("programs[0]: unknown key rank"));
  EXPECT_THAT(refusal(with("\"outcome\"", "\"note\": 1, \"outcome\"")),
              HasSubstr("programs[0].outcomes[0]: unknown key note"));
  EXPECT_THAT(refusal(baseline_text(baseline_of({skipped(), skipped()}, releases("0.15.2")))),
              HasSubstr("programs[1]: "));
}

// A release that the baseline has not is held against the nearest before it.
TEST(Regress, AnotherReleaseAgainstTheNearestOlder) {
  const Baseline baseline = baseline_of({skipped()}, releases("0.10.0, 0.15.2"));
  EXPECT_THAT(compare(baseline, {skipped()}, releases("0.15.1, 0.15.2")).regressions, IsEmpty());
  const RegressionReport report = compare(baseline, {skipped()}, releases("0.15.3, 0.16.0"));
  ASSERT_THAT(report.regressions, SizeIs(1));
  const Regression& cured = report.regressions.front();
  EXPECT_EQ(cured.change,
            (OutcomeChange{"end", "inflight-at-reset at step 3 (t:AC) on rank 0", "completes"}));
  EXPECT_EQ(fold(cured.releases), "0.15.3, 0.16.0");
  EXPECT_EQ(fold(cured.against), "0.15.2");
  EXPECT_EQ(report.verdict(), Verdict::kNotAsExpected);
  EXPECT_EQ(baseline.programs.front().nearest(*Release::parse("0.5.10")).release, *Release::parse("0.10.0"));
}

TEST(Regress, WhatIsAcceptedPassesAndNoMore) {
  Baseline baseline = baseline_of({skipped()}, releases("0.15.2"));
  RegressionReport report = compare(baseline, {skipped()}, releases("0.15.3"));
  accept_all(report, baseline);
  EXPECT_EQ(report.verdict(), Verdict::kAsExpected);
  EXPECT_EQ(report.count(true), 1U);
  const Baseline stored = parse_baseline(baseline_text(baseline), "base.json");
  EXPECT_EQ(compare(stored, {skipped()}, releases("0.15.3")).verdict(), Verdict::kAsExpected);
  EXPECT_EQ(compare(stored, {skipped()}, releases("0.15.3, 0.16.0")).verdict(), Verdict::kNotAsExpected);
  Baseline elsewhere = stored;
  elsewhere.accepted.front().program = "another";
  EXPECT_EQ(compare(elsewhere, {skipped()}, releases("0.15.3")).verdict(), Verdict::kNotAsExpected);
}

TEST(Regress, AcceptedWithoutADifferenceIsSaid) {
  Baseline baseline = baseline_of({skipped()}, releases("0.15.2"));
  baseline.accepted.push_back({"skipped", 1, releases("0.15.2"), {"end", "a", "b"}, ""});
  const RegressionReport report = compare(baseline, {skipped()}, releases("0.15.2"));
  EXPECT_THAT(report.idle, SizeIs(1));
  EXPECT_THAT(text_report(report),
              HasSubstr("accepted, and no difference any more: skipped, 1 rank, on 0.15.2: end"));
}

TEST(Regress, ProgramsThatCameAndWent) {
  const Baseline baseline = baseline_of({skipped()}, releases("0.15.2"));
  const RegressionReport report = compare(baseline, {cached()}, releases("0.15.2"));
  ASSERT_THAT(report.regressions, SizeIs(2));
  EXPECT_EQ(report.regressions[0].change, (OutcomeChange{"program", "not in the baseline", "completes"}));
  EXPECT_EQ(report.regressions[1].change.to, "not among the programs");
}

// Every member of an outcome is compared: each changed alone is one difference, under its name.
TEST(Regress, EveryMemberCounts) {
  const Outcome then = skipped().outcome_on(*Release::parse("0.15.2"));
  const auto changed = [&then](auto change) {
    Outcome now = then;
    change(now);
    std::vector<std::string> what;
    for (const OutcomeChange& one : changes_of(then, now)) what.push_back(one.what);
    return what;
  };
  EXPECT_THAT(changed([](Outcome&) {}), IsEmpty());
  EXPECT_THAT(changed([](Outcome& now) { now.failure->kind = FailureKind::kTracingError; }),
              ElementsAre("end"));
  EXPECT_THAT(changed([](Outcome& now) { now.failure->statement = 0; }), ElementsAre("end"));
  EXPECT_THAT(changed([](Outcome& now) { now.failure->text += "."; }), ElementsAre("text"));
  EXPECT_THAT(changed([](Outcome& now) { now.failure->path.pop_back(); }), ElementsAre("path"));
  EXPECT_THAT(changed([](Outcome& now) { now.failure->params.clear(); }), ElementsAre("params"));
  EXPECT_THAT(changed([](Outcome& now) { now.printed.clear(); }), ElementsAre("printed"));
  EXPECT_THAT(changed([](Outcome& now) { now.wrong_data.emplace_back("B for C"); }),
              ElementsAre("wrong-data"));
  EXPECT_THAT(changed([](Outcome& now) { ++now.audits.front().usage.all_gathers; }), ElementsAre("usage"));
  EXPECT_THAT(changed([](Outcome& now) {
                now.audits.front().faults.push_back({.kind = SilentFaultKind::kStaleWeights,
                                                     .consequence = Consequence::kWrongResult,
                                                     .statement = 0,
                                                     .params = {}});
              }),
              ElementsAre("silent"));
}

TEST(Regress, JsonAndJunit) {
  const RegressionReport report = compare(baseline_of({skipped(), cached()}, releases("0.15.2")),
                                          {skipped(), cached()}, releases("0.15.3"));
  const auto json = nlohmann::json::parse(json_report(report));
  EXPECT_EQ(json.at("verdict"), "not as expected");
  EXPECT_EQ(json.at("differences").front().at("what"), "end");
  EXPECT_THAT(junit_report(report), HasSubstr("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
}

}  // namespace
}  // namespace zero3::sim
