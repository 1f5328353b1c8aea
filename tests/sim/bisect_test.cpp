// Bisection: the release, the pull request and the flag that made a program bad, both ways, and what it refuses.
#include "sim/bisect/bisect.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/bad_input.h"
#include "sim/behaviour_trial.h"
#include "tests/support/tested_programs.h"

namespace zero3::sim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

Release release(const char* text) { return *Release::parse(text); }

std::string refusal(const TestedProgram& program, const char* good, const char* bad) {
  try {
    bisect(program, release(good), release(bad));
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

// v0.15.3 cleans up what is in flight instead of raising (#6557): coming down from it, v0.15.2 is the first bad one.
TEST(Bisect, ASkippedLayerFromTheReleaseThatCuredIt) {
  const Bisection found = bisect(short_program("t:ABC t:ABC t:AC"), release("0.19.8"), release("0.9.5"));
  ASSERT_EQ(found.points.size(), 1U);
  EXPECT_EQ(found.first_bad(), release("0.15.2"));
  EXPECT_EQ(found.points.front().after, release("0.15.3"));
  EXPECT_THAT(found.points.front().sources(), Contains(StartsWith("#6557")));
}

// README: evaluation, then GatheredParameters, across the release that merged the coordinators (#6675).
TEST(Bisect, AnEvaluationThenAGather) {
  const Bisection found =
      bisect(library_program("gathering/eval-then-gather.yaml"), release("0.14.5"), release("0.16.2"));
  EXPECT_EQ(found.first_bad(), release("0.15.4"));
  const ChangePoint& point = found.points[found.first];
  EXPECT_EQ(cell_word(point.was), "ok");
  EXPECT_EQ(cell_word(point.is), "partition-in-flight");
  ASSERT_FALSE(point.deciding.empty());
  // What decides does so alone: undone on the newer release, it ends as the older one.
  const Suspect& suspect = point.deciding.front();
  EXPECT_TRUE(suspect.undoing_restores);
  const Outcome undone = outcome_of(library_program("gathering/eval-then-gather.yaml").experiment,
                                    point.after, {.behaviour = behaviour_with(point.after, suspect.undone)});
  EXPECT_TRUE(end_alike(undone, point.was));
}

// DeepSpeed#5828 came with v2's coordinator (#1453), and went with v0.15.3: both changes are said, in the order met.
TEST(Bisect, EveryChangeBetweenTheTwo) {
  const TestedProgram skipped = short_program("t:ABC t:ABC t:AC");
  EXPECT_EQ(bisect(skipped, release("0.3.12"), release("0.15.2")).first_bad(), release("0.5.11-dev"));
  // A program that ends in three ways, one after the other.
  const TestedProgram saved = library_program("saving/deepspeed-1686-shared-module.yaml");
  size_t several = 0;
  const std::vector<ReleaseOutcome> all = saved.outcomes_on(known_releases());
  for (const ReleaseOutcome& one : all) {
    if (one.outcome.end == End::kLacking || end_alike(all.back().outcome, one.outcome)) continue;
    const Bisection found = bisect(saved, one.release, all.back().release);
    for (const ChangePoint& point : found.points) EXPECT_FALSE(end_alike(point.was, point.is));
    EXPECT_TRUE(end_alike(found.points[found.first].is, found.bad_outcome));
    for (size_t before = 0; before < found.first; ++before)
      EXPECT_FALSE(end_alike(found.points[before].is, found.bad_outcome));
    several += found.points.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 0U);
}

// Over the library: between neighbours, a flag that is said to decide does, and the text names its pull request.
TEST(Bisect, DecidingFlagsOfTheLibrary) {
  size_t decided = 0;
  for (const char* file :
       {"dynamic-graphs/skipped-last-layer.yaml", "saving/deepspeed-1686-shared-module.yaml",
        "evaluation/longer-evaluation.yaml", "checkpoint-recompute/whole-model-checkpointed.yaml"}) {
    const TestedProgram program = library_program(file);
    const std::vector<ReleaseOutcome> all = program.outcomes_on(known_releases());
    for (size_t i = 1; i < all.size(); ++i) {
      const Outcome& was = all[i - 1].outcome;
      const Outcome& is = all[i].outcome;
      if (was.end == End::kLacking || is.end == End::kLacking || end_alike(was, is)) continue;
      const Bisection found = bisect(program, all[i - 1].release, all[i].release);
      ASSERT_EQ(found.points.size(), 1U);
      const ChangePoint& point = found.points.front();
      EXPECT_GT(point.rows, 0U) << file;
      if (!point.deciding.empty()) ++decided;
      const std::string text = text_report(found, program);
      for (const std::string& source : point.sources()) EXPECT_THAT(text, HasSubstr(source));
    }
  }
  EXPECT_GT(decided, 2U);
}

TEST(Bisect, Refuses) {
  const TestedProgram skipped = short_program("t:ABC t:ABC t:AC");
  EXPECT_THAT(refusal(skipped, "0.15.2", "0.15.2"), HasSubstr("--good and --bad are both 0.15.2"));
  EXPECT_THAT(refusal(skipped, "0.6.0", "0.15.2"),
              HasSubstr("ends alike on 0.6.0 and 0.15.2: inflight-at-reset"));
  EXPECT_THAT(refusal(short_program("t:ABC x"), "0.6.0", "0.15.2"),
              HasSubstr("DeepSpeed 0.6.0 has no empty_partition_cache"));
}

TEST(BehaviourTrial, RowsBetweenReleases) {
  for (const Change& change : changes_between(release("0.15.2"), release("0.15.3")))
    EXPECT_EQ(change.since, release("0.15.3")) << change.flag;
  const Change raised = holding(release("0.15.2"), "reset_on_inflight");
  EXPECT_EQ(raised.value, "OnInflight::kRaise");
  const std::vector<Change> rows = changes_between(release("0.15.2"), release("0.15.3"));
  const Behaviour mixed = behaviour_with(release("0.15.2"), rows);
  EXPECT_EQ(mixed.reset_on_inflight, behaviour_of(release("0.15.3")).reset_on_inflight);
}

}  // namespace
}  // namespace zero3::sim
