// What an upgrade changes: failures and silent faults gained and lost, texts, costs; and what counts as worse.
#include "sim/upgrade/upgrade.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "tests/support/tested_programs.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

Release release(const char* text) { return *Release::parse(text); }

Upgrade upgraded(const TestedProgram& program, const char* from, const char* to, bool strict = false) {
  return upgrade_of({program}, release(from), release(to), strict);
}

// DeepSpeed#5828 is cured by v0.15.3, and comes back on the way down.
TEST(Upgrade, AFailureLostAndGained) {
  const TestedProgram skipped = short_program("t:ABC t:ABC t:AC");
  const Upgrade up = upgraded(skipped, "0.15.2", "0.15.3");
  EXPECT_THAT(up.programs.front().lost, ElementsAre("inflight-at-reset at step 3 (t:AC)"));
  EXPECT_THAT(up.programs.front().gained, IsEmpty());
  EXPECT_TRUE(up.programs.front().better());
  EXPECT_EQ(up.verdict(), Verdict::kAsExpected);
  const Upgrade down = upgraded(skipped, "0.15.3", "0.15.2");
  EXPECT_THAT(down.programs.front().gained, ElementsAre("inflight-at-reset at step 3 (t:AC)"));
  EXPECT_EQ(down.verdict(), Verdict::kNotAsExpected);
  EXPECT_THAT(text_report(down), HasSubstr("RuntimeError: still have inflight params [{'id': 1,"));
}

// The dicts in the text came after v0.6.0: another text of the same failure is said, and is no worse.
TEST(Upgrade, AnotherTextIsSaidAndNoWorse) {
  const Upgrade up = upgraded(short_program("t:ABC t:ABC t:AC"), "0.6.0", "0.15.2");
  EXPECT_TRUE(up.programs.front().text_changed);
  EXPECT_THAT(up.programs.front().gained, IsEmpty());
  EXPECT_EQ(up.verdict(), Verdict::kAsExpected);
  EXPECT_THAT(text_report(up), HasSubstr("text was: RuntimeError: still have inflight params"));
}

// A crash that becomes a wrong result is worse, though the run completes; and the other way round so is the crash.
TEST(Upgrade, ASilentFaultGained) {
  const TestedProgram program = library_program("silent-faults/stale-weights-while-accumulating.yaml");
  const Upgrade up = upgraded(program, "0.4.3", "0.5.10");
  EXPECT_THAT(up.programs.front().gained, ElementsAre("stale-weights (wrong result)"));
  EXPECT_THAT(up.programs.front().lost, Not(IsEmpty()));
  EXPECT_EQ(up.verdict(), Verdict::kNotAsExpected);
  EXPECT_EQ(upgraded(program, "0.5.10", "0.6.0").verdict(), Verdict::kAsExpected);
}

TEST(Upgrade, WrongDataGained) {
  const TestedProgram program = library_program("rank-divergence/deepspeed-5799-eval.yaml");
  const Upgrade down = upgraded(program, "0.19.8", "0.5.10");
  EXPECT_EQ(down.verdict(), Verdict::kNotAsExpected);
  EXPECT_THAT(down.programs.front().gained, ElementsAre(StartsWith("wrong data: ")));
}

// v1 gathers each param by itself: v0.6.0's coalesced all-gathers are fewer, the way down costs more.
TEST(Upgrade, CostsAreWorseOnlyIfStrict) {
  const TestedProgram program = library_program("controls/static-llama.yaml");
  const ProgramUpgrade up = upgraded(program, "0.5.10", "0.19.8").programs.front();
  ASSERT_TRUE(up.costs_known);
  EXPECT_LT(up.cost_to.all_gathers, up.cost_from.all_gathers);
  EXPECT_EQ(upgraded(program, "0.19.8", "0.5.10").verdict(), Verdict::kAsExpected);
  EXPECT_EQ(upgraded(program, "0.19.8", "0.5.10", true).verdict(), Verdict::kNotAsExpected);
  EXPECT_THAT(text_report(upgraded(program, "0.5.10", "0.19.8")), HasSubstr("all-gathers a step: "));
}

// One step over A, B, C by hand: six gathers of 64 elements, one live at a time.
TEST(Upgrade, CostsArePerTrainingStep) {
  const ProgramUpgrade same = upgraded(short_program("t:ABC"), "0.19.7", "0.19.8").programs.front();
  EXPECT_EQ(same.cost_to.all_gathers, 6);
  EXPECT_EQ(same.cost_to.gathered_numel, 6 * 64);
  EXPECT_EQ(same.cost_to, same.cost_from);
  EXPECT_EQ(text_report(upgraded(short_program("t:ABC"), "0.19.7", "0.19.8")),
            "DeepSpeed 0.19.7 -> 0.19.8\n0 worse, 0 better, 1 no worse (1 unchanged)\n");
}

TEST(Upgrade, WhatAReleaseLacks) {
  const TestedProgram cached = short_program("t:ABC x");
  EXPECT_EQ(upgraded(cached, "0.6.0", "0.15.2").verdict(), Verdict::kInconclusive);
  EXPECT_EQ(upgraded(cached, "0.15.2", "0.6.0").verdict(), Verdict::kNotAsExpected);  // it ran, and cannot
}

// DeepSpeed#5828's kind: v0.15.3 drops what the prefetch brought for the first exit instead of failing.
TEST(Upgrade, PastItsFailureAtThePriceOfTimeIsBetter) {
  const TestedProgram program = library_program("dynamic-graphs/early-exit.yaml");
  const Upgrade up = upgraded(program, "0.9.5", "0.19.8");
  EXPECT_THAT(up.programs.front().lost, ElementsAre(StartsWith("inflight-at-reset at step 5")));
  EXPECT_THAT(up.programs.front().gained, ElementsAre("prefetch-thrown-away (slower)"));
  EXPECT_TRUE(up.programs.front().better());
  EXPECT_EQ(up.verdict(), Verdict::kAsExpected);
  const Upgrade down = upgraded(program, "0.19.8", "0.9.5");
  EXPECT_FALSE(down.programs.front().better());
  EXPECT_EQ(down.verdict(), Verdict::kNotAsExpected);
}

// What comes after the cut is not known, so nothing is proved by what is there.
TEST(Upgrade, OfARecordingThatWasCutIsInconclusive) {
  TestedProgram cut = short_program("t:ABC");
  cut.partial = true;
  const Upgrade same = upgraded(cut, "0.19.7", "0.19.8");
  EXPECT_EQ(same.verdict(), Verdict::kInconclusive);
  EXPECT_THAT(text_report(same), HasSubstr("program, 1 rank, recorded in part: no worse\n"));
  TestedProgram skipped = short_program("t:ABC t:ABC t:AC");
  skipped.partial = true;
  EXPECT_EQ(upgraded(skipped, "0.15.3", "0.15.2").verdict(), Verdict::kNotAsExpected);
}

TEST(Upgrade, JsonAndJunit) {
  const Upgrade down = upgraded(short_program("t:ABC t:ABC t:AC"), "0.15.3", "0.15.2");
  const auto json = nlohmann::json::parse(json_report(down));
  EXPECT_EQ(json.at("verdict"), "not as expected");
  const auto& program = json.at("programs").front();
  EXPECT_EQ(program.at("change"), "worse");
  EXPECT_EQ(program.at("to").at("failure").at("kind"), "inflight-at-reset");
  EXPECT_TRUE(program.at("cost_to").is_null());  // it did not come to its end
  EXPECT_THAT(junit_report(down), HasSubstr("tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(junit_report(down), HasSubstr("gained: inflight-at-reset at step 3 (t:AC)"));
}

TEST(Upgrade, RefusesOneRelease) {
  EXPECT_THROW(upgraded(short_program("t:ABC"), "0.15.2", "0.15.2"), BadInput);
}

}  // namespace
}  // namespace zero3::sim
