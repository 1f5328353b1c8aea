// Differential fuzzing with judges that stand in for real DeepSpeed.
#include "sim/fuzz/fuzzer.h"

#include <algorithm>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fuzz/probe_judge.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::Pair;

bool saves(const Experiment& experiment) {
  return std::ranges::any_of(experiment.rank_programs.front(), [](const Statement& statement) {
    return std::ranges::any_of(statement.ops, [](const Op& op) { return op.kind == OpKind::kSave16bit; });
  });
}

// Differs wherever a 16-bit save is, in one of two ways.
class SaveJudge final : public Judge {
 public:
  Judgement judge(const Experiment& experiment, const std::string&) override {
    if (!saves(experiment)) return {.events = 1};
    return {.kind = Judgement::Kind::kDiffers,
            .way = experiment.rank_programs.size() > 1 ? "on two ranks" : "on one rank"};
  }
};

class SilentJudge final : public Judge {
 public:
  explicit SilentJudge(Judgement::Kind kind) : kind_(kind) {}
  Judgement judge(const Experiment&, const std::string&) override { return {.kind = kind_, .way = "why"}; }

 private:
  Judgement::Kind kind_;
};

class ThrowingJudge final : public Judge {
 public:
  Judgement judge(const Experiment&, const std::string&) override {
    throw std::runtime_error("no DeepSpeed");
  }
};

FuzzOptions options(int jobs) {
  FuzzOptions made;
  made.target.release = *Release::parse("0.15.2");
  made.programs = 40;
  made.ranks = {1, 2};
  made.jobs = jobs;
  return made;
}

FuzzResult fuzz_saves(int jobs) {
  return fuzz(options(jobs), {.make_judge = [] { return std::make_unique<SaveJudge>(); }});
}

TEST(Fuzzer, CountsWhatAgreesAndShrinksWhatDiffersInTheSameWay) {
  const FuzzResult result = fuzz_saves(1);
  EXPECT_EQ(result.counts.total(), 40U);
  EXPECT_EQ(result.counts.agree, result.events);
  EXPECT_GT(result.counts.differ, 5U);
  EXPECT_EQ(result.counts.differ, result.findings.size());
  EXPECT_THAT(result.programs_by_ranks, ElementsAre(Pair(1, 36U), Pair(2, 4U)));
  for (const FuzzFinding& finding : result.findings) {
    EXPECT_EQ(finding.smallest.rank_programs.size(), static_cast<size_t>(finding.ranks)) << "the same way";
    EXPECT_EQ(finding.smallest.rank_programs.front().size(), 1U);
    EXPECT_TRUE(saves(finding.smallest));
  }
}

TEST(Fuzzer, FindsTheSameWithAnyNumberOfJobs) {
  const FuzzResult one = fuzz_saves(1);
  const FuzzResult four = fuzz_saves(4);
  ASSERT_EQ(one.findings.size(), four.findings.size());
  for (size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_EQ(one.findings[i].index, four.findings[i].index);
    EXPECT_EQ(one.findings[i].smallest, four.findings[i].smallest);
  }
}

TEST(Fuzzer, GoesOnWhereARunEnded) {
  FuzzOptions second_half = options(1);
  second_half.first = 20;
  second_half.programs = 20;
  const FuzzResult later = fuzz(second_half, {.make_judge = [] { return std::make_unique<SaveJudge>(); }});
  const FuzzResult whole = fuzz_saves(1);
  size_t at = whole.findings.size() - later.findings.size();
  for (const FuzzFinding& finding : later.findings) EXPECT_EQ(finding.index, whole.findings[at++].index);
}

TEST(Fuzzer, CountsWhatCannotBeDecidedApart) {
  for (const auto kind :
       {Judgement::Kind::kInconclusive, Judgement::Kind::kTimedOut, Judgement::Kind::kDied}) {
    FuzzOptions few = options(1);
    few.programs = 3;
    const FuzzResult result =
        fuzz(few, {.make_judge = [kind] { return std::make_unique<SilentJudge>(kind); }});
    EXPECT_EQ(result.counts.agree + result.counts.differ, 0U);
    EXPECT_EQ(result.counts.total(), 3U);
    EXPECT_THAT(result.undecided, ElementsAre(Pair("why", ElementsAre(0U, 1U, 2U))));
  }
}

TEST(Fuzzer, WhatAJudgeThrowsEndsTheRun) {
  EXPECT_THROW(fuzz(options(2), {.make_judge = [] { return std::make_unique<ThrowingJudge>(); }}),
               std::runtime_error);
}

TEST(ProbeJudge, TorchStopsRecomputationEarlySinceTwoPointOne) {
  EXPECT_FALSE(stops_recompute_early("1.13.0a0"));
  EXPECT_FALSE(stops_recompute_early("2.0.1+cpu"));
  EXPECT_TRUE(stops_recompute_early("2.1.0"));
  EXPECT_TRUE(stops_recompute_early("2.15.0+cpu"));
}

}  // namespace
}  // namespace zero3::sim
