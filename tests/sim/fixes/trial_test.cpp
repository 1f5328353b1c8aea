// Given this program on this release, these fixes cure it, and these do not.
#include "sim/fixes/trial.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fixes/fix_report.h"
#include "sim/outcome/tested_program.h"
#include "sim/short_form.h"

namespace zero3::sim {
namespace {

using ::testing::HasSubstr;

// A program of the short form, on any number of ranks.
FixReport tried(const std::string& program, const Release& release, ShortFormOptions options = {}) {
  const TestedProgram tested{.name = program,
                             .title = "",
                             .path = "",
                             .experiment = parse_short_form(program, options),
                             .seed = 0,
                             .scenario = nullptr};
  const FixSubject subject = subject_of(tested);
  VariationsByRanks variations;
  return Trial(subject, release, variations).run();
}

FixReport tried_file(const std::string& path, const Release& release) {
  const TestedProgram tested = load_programs({path}, 0, std::nullopt).front();
  const FixSubject subject = subject_of(tested);
  VariationsByRanks variations;
  return Trial(subject, release, variations).run();
}

const FixResult& result_of(const FixReport& report, const std::string& id) {
  const auto found = std::ranges::find_if(
      report.results, [&id](const FixResult& result) { return result.candidate.id == id; });
  static const FixResult kNone;
  EXPECT_NE(found, report.results.end()) << id;
  return found == report.results.end() ? kNone : *found;
}

// DeepSpeed#5828: the thread's own workarounds cure it; they cost an all-gather that nothing hides.
TEST(Trial, ASkippedLayer) {
  const FixReport report = tried("t:ABC t:ABC t:AC", {0, 15, 2});
  EXPECT_EQ(report.ailment, "inflight-at-reset");
  EXPECT_EQ(report.variations, 2U);
  EXPECT_EQ(report.world_sizes, (std::vector<int>{1, 2, 4, 8}));
  const FixResult& no_prefetch = result_of(report, "no-prefetch");
  EXPECT_EQ(no_prefetch.cure, Cure::kCuredBut);
  EXPECT_TRUE(no_prefetch.holds());
  EXPECT_GT(no_prefetch.more->exposed, 0);
  EXPECT_EQ(result_of(report, "discard-skipped").cure, Cure::kCured);
  EXPECT_EQ(result_of(report, "no-reuse").why, "it is so already");
  EXPECT_EQ(result_of(report, "empty-cache-before-forwards").cure, Cure::kNotCured);
  EXPECT_EQ(result_of(report, "older-release").candidate.release, Release({0, 5, 10}));
  EXPECT_EQ(result_of(report, "newer-release").candidate.release, Release({0, 15, 3}));
  EXPECT_TRUE(result_of(report, "newer-release").holds());
}

// A threshold at the layer that is skipped here is too low for a larger one skipped elsewhere.
TEST(Trial, FindsThePositionThatAFixDoesNotHoldFor) {
  const FixReport report = tried_file("scenarios/dynamic-graphs/layerdrop-m2m100.yaml", {0, 15, 2});
  const FixResult& skipped = result_of(report, "persist-skipped");
  EXPECT_EQ(skipped.cure, Cure::kCuredBut);
  EXPECT_FALSE(skipped.holds());
  ASSERT_TRUE(skipped.counterexample);
  EXPECT_EQ(skipped.counterexample->ranks, 1);
  EXPECT_THAT(counterexample_text(*skipped.counterexample), HasSubstr("without "));
  EXPECT_TRUE(result_of(report, "persist-all").holds());
}

// v0.6.0 has no trace that could be invalidated: without prefetch it fails in another way.
TEST(Trial, NamesTheOtherFailure) {
  const FixReport report = tried("t:ABC t:ABC t:AC", {0, 6, 0});
  const FixResult& no_prefetch = result_of(report, "no-prefetch");
  EXPECT_EQ(no_prefetch.cure, Cure::kNotCured);
  EXPECT_EQ(ending_text(no_prefetch.outcome), "tracing-error at step 3 (t:AC)");
}

TEST(Trial, WhatTheReleaseLacksDoesNotApply) {
  ShortFormOptions options;
  options.prefetch_bucket_numel = 1;
  const FixReport report = tried("t:ABC t:ABC f:ABC gm:B", {0, 8, 3}, options);
  const FixResult& emptied = result_of(report, "empty-cache-before-saves");
  EXPECT_EQ(emptied.cure, Cure::kDoesNotApply);
  EXPECT_EQ(emptied.why, "DeepSpeed 0.8.3 has no empty_partition_cache");
  EXPECT_TRUE(result_of(report, "no-prefetch").cure <= Cure::kCuredBut) << "the rest still runs";
}

TEST(Trial, NothingToCure) {
  const FixReport report = tried("t:ABC t:ABC t:AC", {0, 15, 3});
  EXPECT_EQ(report.ailment, "");
  EXPECT_TRUE(report.results.empty());
  EXPECT_EQ(verdict_of(report), Verdict::kInconclusive);
}

// Weights from before the update raise nothing; a fix has to rid the run of them.
TEST(Trial, ASilentFault) {
  const FixReport report =
      tried_file("scenarios/silent-faults/stale-weights-while-accumulating.yaml", {0, 5, 10});
  EXPECT_EQ(report.ailment, "stale-weights");
  EXPECT_LE(result_of(report, "no-accumulation").cure, Cure::kCuredBut);
  EXPECT_TRUE(result_of(report, "no-accumulation").outcome.silent_kinds().empty());
}

// Three ranks that do the same stand for any number, and are tried as three, too.
TEST(Trial, TheProgramsOwnNumberOfRanks) {
  ShortFormOptions options;
  options.ranks = 3;
  EXPECT_EQ(tried("t:ABC t:ABC t:AC", {0, 15, 2}, options).world_sizes, (std::vector<int>{1, 2, 3, 4, 8}));
}

// Ranks that take different branches. A result that is thrown away has no backward: there the ranks part after all.
TEST(Trial, RanksThatDiffer) {
  const FixReport report = tried_file("scenarios/rank-divergence/unequal-sizes.yaml", {0, 15, 2});
  EXPECT_EQ(report.ailment, "hang");
  EXPECT_EQ(result_of(report, "discard-skipped").cure, Cure::kNotCured);
  EXPECT_TRUE(result_of(report, "use-skipped").holds());
  EXPECT_TRUE(result_of(report, "same-on-every-rank").holds());
}

TEST(Trial, EveryFixIsKnownOnce) {
  std::vector<std::string_view> ids;
  for (const KnownFix& known : known_fixes()) {
    EXPECT_EQ(std::ranges::count(ids, known.id), 0) << known.id;
    ids.push_back(known.id);
  }
  EXPECT_TRUE(std::ranges::is_sorted(known_fixes(), {}, &KnownFix::kind)) << "the smallest change first";
}

}  // namespace
}  // namespace zero3::sim
