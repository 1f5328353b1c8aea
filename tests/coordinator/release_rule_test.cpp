// Which params a module's release may partition under a complete trace: __params_to_release.
#include "coordinator/release_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::FakeCommunicator;
using test::model;
using test::release;
using testing::ElementsAre;
using testing::IsEmpty;

// The trace root A B C A, whose layers have 64 elements each; the rule is asked at A's release, step 2.
class ReleaseRuleTest : public testing::Test {
 protected:
  void use(std::string_view of_release, int64_t reuse_distance) {
    runtime_.behaviour = behaviour_of(release(of_release));
    runtime_.settings.max_reuse_distance_numel = reuse_distance;
    process_.convert(parameters_of(built_.module(0)));
    trace_ = std::make_unique<Trace>(runtime_);
    rule_ = std::make_unique<ReleaseRule>(runtime_);
    for (const int index : {0, 1, 2, 3, 1}) trace_->record_module(built_.module(index), 0);
  }
  ReleaseAnswer& answer(int module = 1, int64_t step = 2) {
    return rule_->answer(built_.module(module), step, *trace_, [this](const Param&) { return fetched_for_; });
  }
  bool releases_a(std::string_view of_release, int64_t reuse_distance) {
    use(of_release, reuse_distance);
    return !answer().ds_ids.empty();
  }

  FakeCommunicator communicator_{0, 1};
  Runtime runtime_{{}, {}, communicator_, nullptr};
  Process process_;
  Model built_{model().layers("ABC").spec()};
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<ReleaseRule> rule_;
  int64_t fetched_for_ = -10'000'000'000;
};

// eras.md, 5.6: B and C, 128 elements, lie between the uses of A. The walk stops before a module once the distance is
// reached (>=, #2016, v0.6.6), or passed (>, before).
TEST_F(ReleaseRuleTest, KeepsWhatIsUsedAgainWithinTheDistance) {
  EXPECT_TRUE(releases_a("0.6.6", 128));
  EXPECT_FALSE(releases_a("0.6.6", 129));
  EXPECT_TRUE(releases_a("0.6.5", 127));
  EXPECT_FALSE(releases_a("0.6.5", 128));
  EXPECT_EQ(answer().kept.front().reason, Reason::kReusedSoon);
  EXPECT_EQ(answer().kept.front().step, 4);
}

// With distance 0 the old loop still examines modules until one with params has been counted.
TEST_F(ReleaseRuleTest, ZeroDistanceStillLooksAtTheNextModuleBefore_0_6_6) {
  for (const char* of_release : {"0.6.4", "0.6.5"}) {
    use(of_release, 0);
    EXPECT_THAT(answer(2, 2).ds_ids, IsEmpty()) << "B is the next module in the trace";
  }
  use("0.6.6", 0);
  EXPECT_THAT(answer(2, 2).ds_ids, ElementsAre(1));
}

// #2016: the prefetcher passed a later use of the param, so it would not be fetched again.
TEST_F(ReleaseRuleTest, KeepsAParamWhoseNextUseThePrefetcherSkipped) {
  fetched_for_ = 4;
  EXPECT_TRUE(releases_a("0.6.5", 0));
  EXPECT_FALSE(releases_a("0.6.6", 0));
  EXPECT_EQ(answer().kept.front().reason, Reason::kUseSkipped);
  EXPECT_EQ(answer().kept.front().step, 4);
}

TEST_F(ReleaseRuleTest, FetchedForThisStepIsNotALaterUse) {
  fetched_for_ = 2;
  EXPECT_TRUE(releases_a("0.19.8", 0));
}

TEST_F(ReleaseRuleTest, PersistentParamsStay) {
  built_.param(1, 0)->ds_persist = true;
  EXPECT_FALSE(releases_a("0.19.8", 0));
  EXPECT_EQ(answer().kept.front().reason, Reason::kPersists);
}

// The cache is keyed by module and step id for the coordinator's life (eras.md, 5.6).
TEST_F(ReleaseRuleTest, AnswerIsRememberedThroughInvalidation) {
  use("0.15.2", 0);
  EXPECT_THAT(answer().ds_ids, ElementsAre(0));
  trace_->invalidate();
  for (const int index : {0, 1, 1}) trace_->record_module(built_.module(index), 0);
  runtime_.settings.max_reuse_distance_numel = 1'000'000;
  fetched_for_ = 9;
  EXPECT_THAT(answer().ds_ids, ElementsAre(0)) << "as answered first, though A is used again at once";
  EXPECT_THAT(answer(1, 1).ds_ids, IsEmpty()) << "another step is another question";
}

// v0.19.3 (#8148) adds a module's recompute params to the very set that is cached: releasable at that step for good.
TEST_F(ReleaseRuleTest, WhatIsAddedToAnAnswerStays) {
  use("0.19.3", 0);
  answer().allow(*built_.param(3, 0));
  EXPECT_THAT(answer().ds_ids, ElementsAre(0, 2));
  EXPECT_TRUE(answer().allows(*built_.param(3, 0)));
}

// v0.13.0's leaf recursion follows the module being released, not the one being passed (#4966; eras.md, 3.31).
TEST_F(ReleaseRuleTest, RecursionFollowsTheReleasedModule) {
  Model nested(model().layers("A").activation("B").layer("B.c").leaf("A").spec());
  Process process;
  process.convert(parameters_of(nested.module(0)));
  const auto distance_to_a = [&](bool a_is_leaf) {
    use("0.13.0", 64);
    nested.module(1).is_leaf = a_is_leaf;
    nested.module(1).params_changed();
    trace_->invalidate();
    for (const int index : {2, 1}) trace_->record_module(nested.module(index), 0);
    return rule_->answer(nested.module(1), 0, *trace_, [](const Param&) { return int64_t{-1}; })
        .ds_ids.empty();
  };
  EXPECT_FALSE(distance_to_a(true)) << "B counts its 64 elements of c: the distance is used up before A";
  EXPECT_TRUE(distance_to_a(false)) << "B counts none: A is found";
}

}  // namespace
}  // namespace zero3
