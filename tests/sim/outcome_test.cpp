// What a program comes to on a release, as plain data: each kind of end once, equality, the word for a cell.
#include "sim/outcome/outcome.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/bad_input.h"
#include "sim/short_form.h"
#include "tests/support/tested_programs.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Release release(const char* text) { return *Release::parse(text); }

Outcome tried(const std::string& program, const char* on, const ShortFormOptions& options = {}) {
  return outcome_of(parse_short_form(program, options), release(on));
}

// DeepSpeed#5828: B is prefetched, and the step that skips it finds it in flight up to v0.15.2.
TEST(Outcome, AFailureHasItsKindTextAndPlace) {
  const Outcome outcome = tried("t:ABC t:ABC t:AC", "0.15.2");
  EXPECT_EQ(outcome.end, End::kFails);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->kind, FailureKind::kInflightAtReset);
  EXPECT_THAT(outcome.failure->text, StartsWith("RuntimeError: still have inflight params [{'id': 1, "));
  EXPECT_EQ(outcome.failure->statement, 2U);
  EXPECT_EQ(outcome.failure->statement_text, "t:AC");
  EXPECT_EQ(outcome.failure->path.back(), "reset_step");
  ASSERT_FALSE(outcome.failure->params.empty());
  EXPECT_EQ(outcome.failure->params.front().name, "B.weight");
  EXPECT_THAT(outcome.printed, ElementsAre(StartsWith("Invalidate trace cache @ step 2")));
  EXPECT_EQ(cell_word(outcome), "inflight-at-reset");
  EXPECT_FALSE(outcome.good());
}

// One step over A, B, C on one rank: each is gathered in forward, and all but C, which is still there, in backward.
TEST(Outcome, WhatCompletesHasItsUsage) {
  const Outcome outcome = tried("t:ABC", "0.19.8");
  EXPECT_EQ(outcome.end, End::kCompletes);
  EXPECT_FALSE(outcome.failure);
  EXPECT_EQ(cell_word(outcome), "ok");
  EXPECT_TRUE(outcome.good());
  ASSERT_EQ(outcome.audits.size(), 1U);
  const Usage& usage = outcome.audits.front().usage;
  EXPECT_EQ(usage.optimizer_steps, 1);
  EXPECT_EQ(usage.all_gathers, 6);
  EXPECT_EQ(usage.gathered_numel, 6 * 64);
  EXPECT_EQ(usage.peak_live_numel, 64);
}

TEST(Outcome, AHang) {
  const Outcome outcome = library_program("rank-divergence/unequal-sizes.yaml").outcome_on(release("0.15.2"));
  EXPECT_EQ(outcome.end, End::kHangs);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->kind, FailureKind::kHang);
  EXPECT_EQ(cell_word(outcome), "hang");
}

TEST(Outcome, WrongData) {
  const Outcome outcome =
      library_program("rank-divergence/deepspeed-5799-eval.yaml").outcome_on(release("0.5.10"));
  EXPECT_EQ(outcome.end, End::kWrongData);
  EXPECT_FALSE(outcome.failure);
  EXPECT_FALSE(outcome.wrong_data.empty());
  EXPECT_EQ(cell_word(outcome), "wrong-data");
  EXPECT_EQ(outcome.audits.size(), 2U);  // both kinds of ranks
}

TEST(Outcome, ASilentFaultNamesTheCell) {
  const TestedProgram program = library_program("silent-faults/stale-weights-while-accumulating.yaml");
  const Outcome stale = program.outcome_on(release("0.5.10"));
  EXPECT_EQ(stale.end, End::kCompletes);
  EXPECT_THAT(stale.silent_kinds(), ElementsAre("stale-weights"));
  EXPECT_EQ(cell_word(stale), "stale-weights");
  EXPECT_FALSE(stale.good());
  EXPECT_EQ(cell_word(program.outcome_on(release("0.19.8"))), "ok");
}

TEST(Outcome, WhatAReleaseLacks) {
  const Outcome outcome = tried("t:ABC x", "0.6.0");
  EXPECT_EQ(outcome.end, End::kLacking);
  EXPECT_EQ(outcome.lacking, "DeepSpeed 0.6.0 has no empty_partition_cache");
  EXPECT_THAT(outcome.audits, IsEmpty());
  EXPECT_EQ(cell_word(outcome), "lacking");
}

// A scenario that expects the AttributeError has it.
TEST(Outcome, AMissingMethodIsAFailureWhereItIsExpected) {
  const TestedProgram program = library_program("saving/optimizer-less-engine-save.yaml");
  std::vector<std::string> words;
  for (const ReleaseOutcome& one : program.outcomes_on(known_releases())) {
    const auto expected = program.scenario->expected_for(one.release, program.ranks());
    if (expected && expected->failure == FailureKind::kMissingMethod) words.push_back(cell_word(one.outcome));
  }
  EXPECT_FALSE(words.empty());
  EXPECT_THAT(words, testing::Each("missing-method"));
}

// The text is another ('shape' came with the dicts), the end is the same.
TEST(Outcome, EqualAndAlike) {
  const std::string program = "t:ABC t:ABC t:AC";
  EXPECT_EQ(tried(program, "0.10.0"), tried(program, "0.10.3"));
  const Outcome early = tried(program, "0.6.0");
  const Outcome late = tried(program, "0.15.2");
  EXPECT_NE(early.failure->text, late.failure->text);
  EXPECT_NE(early, late);
  EXPECT_TRUE(end_alike(early, late));
  EXPECT_FALSE(end_alike(late, tried(program, "0.15.3")));
  EXPECT_FALSE(end_alike(late, tried("t:ABC " + program, "0.15.2")));  // a statement later
}

// A release with no row of its own in the table does what the one before it did; so do the two ways of asking.
TEST(Outcome, OnSeveralReleasesAsOnEach) {
  const Experiment experiment = parse_short_form("t:ABC t:ABC t:AC x", {});
  const std::vector<ReleaseOutcome> outcomes = outcomes_on(experiment, known_releases());
  ASSERT_EQ(outcomes.size(), known_releases().size());
  for (const ReleaseOutcome& one : outcomes)
    EXPECT_EQ(one.outcome, outcome_of(experiment, one.release)) << one.release.text();
}

TEST(Outcome, AnotherBehaviourThanTheReleases) {
  Behaviour cured = behaviour_of(release("0.15.2"));
  cured.reset_on_inflight = OnInflight::kClean;
  const Experiment experiment = parse_short_form("t:ABC t:ABC t:AC", {});
  EXPECT_EQ(cell_word(outcome_of(experiment, release("0.15.2"), {.behaviour = cured})), "ok");
}

TEST(TestedProgram, OfARunFile) {
  const std::vector<TestedProgram> programs = load_programs({"docs/examples/train.v0.15.2.jsonl"}, 0, {});
  ASSERT_EQ(programs.size(), 1U);
  EXPECT_EQ(programs.front().scenario, nullptr);
  EXPECT_EQ(cell_word(programs.front().outcome_on(release("0.15.2"))), "inflight-at-reset");
  EXPECT_THROW(load_programs({"docs/examples/train.v0.15.2.jsonl"}, 7, {}), BadInput);
}

TEST(TestedProgram, RanksAndSeedOfTheCaller) {
  const std::string file = "scenarios/dynamic-graphs/skipped-layer-no-prefetch.yaml";
  const TestedProgram asked = load_programs({file}, 3, 7).front();
  EXPECT_EQ(asked.ranks(), 3);
  EXPECT_EQ(asked.seed, 7U);
  EXPECT_THROW(load_programs({"scenarios/no-such.yaml"}, 0, {}), BadInput);
}

}  // namespace
}  // namespace zero3::sim
