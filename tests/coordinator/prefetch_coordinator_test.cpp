// The coordinator of v0.3.12-v0.5.10 in an engine (eras.md, 6 and 8).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::Config;
using test::model;
using test::outcome;
using test::RecordedEvent;
using test::TestEngine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> prefetched(TestEngine& engine, const std::string& program) {
  engine.observer().events.clear();
  EXPECT_EQ(engine.run(program), "ok");
  std::vector<std::string> groups;
  for (const RecordedEvent& event : engine.observer().all(EventKind::kAllGather)) {
    if (event.reason == Reason::kPrefetched) groups.push_back(event.module + ": " + event.params);
  }
  return groups;
}

// observed/v0.5.10: the first root forward after an optimizer step starts at step 0, the reset comes after root's own
// hook, and from then on ids are off by one.
TEST(V1, StepIdsAreOffByOneFromV0_3_14) {
  TestEngine engine("0.5.10");
  EXPECT_EQ(engine.events("t:AB"),
            "[0]fetch(root) step:=0 [0]fetch(A) AG{A} REL A [1]fetch(B) AG{B} REL B [2]fetch(root) "
            "[3]fetch(B) AG{B} "
            "REL B [4]fetch(A) AG{A} REL A step:=0");
}

// v0.3.12-v0.3.13 have no reset at a forward's start: prefetch is fully effective.
TEST(V1, PrefetchWorksInTheFirstReleases) {
  TestEngine engine("0.3.13");
  ASSERT_EQ(engine.run("t:ABC"), "ok");
  EXPECT_THAT(prefetched(engine, "t:ABC"), ElementsAre("root: AB", "A: C", "C: BA"));
}

// #867: the identity test of prefetch fails for every module but root, right after a reset to 0.
TEST(V1, ResetAfterRootsHookTurnsPrefetchOff) {
  TestEngine engine("0.5.10");
  ASSERT_EQ(engine.run("t:ABC"), "ok");
  EXPECT_THAT(prefetched(engine, "t:ABC"), ElementsAre("root: AB"));
  EXPECT_THAT(engine.observer().reason(EventKind::kPrefetchEnd), Reason::kOtherModule);
}

// In the releases that run on through a cycle (A1), the last backward hook of a micro-batch prefetches the next one.
TEST(V1, PrefetchCrossesMicroBatchesInEraA1) {
  TestEngine engine("0.3.13", {.accumulation = 2});
  ASSERT_EQ(engine.run("t:ABC t:ABC t:ABC"), "ok");
  EXPECT_NE(engine.statuses().find("=I"), std::string::npos);
  EXPECT_THAT(outcome("0.3.13", "t:ABC t:ABC t:ABC gm:ABC", {.accumulation = 2}), StartsWith("CP("));
  TestEngine next("0.3.14", {.accumulation = 2});
  ASSERT_EQ(next.run("t:ABC t:ABC t:ABC"), "ok");
  EXPECT_EQ(next.statuses().find("=I"), std::string::npos);
}

// Prefetched params are gathered one by one, in the trace's order.
TEST(V1, OneCollectiveAParam) {
  TestEngine engine("0.3.13", {.world = 2});
  ASSERT_EQ(engine.run("t:ABC"), "ok");
  engine.ranks().clear();
  ASSERT_EQ(engine.run("f:A"), "ok");
  EXPECT_THAT(engine.ranks().log,
              ElementsAre("all_gather A", "all_gather B", "wait", "wait", "all_gather C"));
}

// A fetch that needs anything waits for everything in flight (_synchronize_communication).
TEST(V1, FetchCompletesAllThatIsInFlight) {
  TestEngine engine("0.3.13", {.prefetch = 1000});
  ASSERT_EQ(engine.run("t:ABC f:A"), "ok");
  EXPECT_EQ(engine.status("B"), "A");
  EXPECT_EQ(engine.status("C"), "A");
}

// #1188 (v0.5.5): the module's own gather is one blocking, coalesced collective.
TEST(V1, OwnGatherBlocksFromV0_5_5) {
  const auto collectives = [](std::string_view release) {
    TestEngine engine(release, {.model = model().layer("A", {{8}, {8}}), .world = 2});
    EXPECT_EQ(engine.run("f:A"), "ok");
    return engine.ranks().log;
  };
  EXPECT_THAT(collectives("0.5.4"), ElementsAre("all_gather A", "all_gather A.p1", "wait", "wait"));
  EXPECT_THAT(collectives("0.5.5"), ElementsAre("all_gather A,A.p1", "wait"));
}

// observed/v0.4.4 and v0.5.3 / v0.5.5: no outcome depends on it.
TEST(V1, BlockingGatherChangesNoOutcome) {
  const Config t5 = {
      .model = model().layers("ABC").also_below("X", "A"), .reuse = 1'000'000, .accumulation = 2};
  for (const char* release : {"0.4.4", "0.5.3", "0.5.4", "0.5.5", "0.5.10"}) {
    TestEngine engine(release, t5);
    EXPECT_EQ(engine.run("t:ABC t:ABC t:ABC"), "ok");
    EXPECT_EQ(engine.statuses(), "A=N B=I C=I") << release;
  }
}

// The last pre-backward hooks of a module with two parents are two equal trace entries in a row: the one place where
// the shifted ids match, and the prefetcher walks into the cycle's next micro-batch (eras.md, 6.1).
TEST(V1, TwiceRegisteredModuleMatchesAtTheEndOfBackward) {
  TestEngine engine("0.5.10", {.model = model().layers("ABC").also_below("X", "A"), .accumulation = 2});
  ASSERT_EQ(engine.run("t:ABC t:ABC"), "ok");
  EXPECT_THAT(prefetched(engine, "t:ABC"), testing::Contains("A: BC"));
}

// #1227 (v0.4.4): before, a module's second backward application neither fetches nor records.
TEST(V1, SecondBackwardApplicationFetchesFromV0_4_4) {
  const auto backward_fetches = [](std::string_view release) {
    TestEngine engine(release, {.model = model().layers("AB").also_below("X", "A")});
    EXPECT_EQ(engine.run("f:AB"), "ok");
    engine.observer().events.clear();
    EXPECT_EQ(engine.run("b"), "ok");
    return std::ranges::count_if(engine.observer().events, [](const RecordedEvent& event) {
      return event.kind == EventKind::kFetch && event.module == "A";
    });
  };
  EXPECT_EQ(backward_fetches("0.4.3"), 1);
  EXPECT_EQ(backward_fetches("0.4.4"), 2);
}

// eras.md, 8: keep_for_later measures the trace up to the module's next occurrence; keep iff distance < R.
TEST(V1, ReuseDistanceKeepsParams) {
  const auto after_forward = [](std::string_view release, int64_t reuse) {
    TestEngine engine(release, {.live = 0, .reuse = reuse});
    EXPECT_EQ(engine.run("t:ABC f:ABC"), "ok");
    return engine.statuses().substr(0, 11);
  };
  // forward A B C, backward C B A: nothing lies between C's uses but root, B's are 128 apart, A's 256
  EXPECT_EQ(after_forward("0.3.13", 1), "A=N B=N C=A");
  EXPECT_EQ(after_forward("0.3.13", 129), "A=N B=A C=A");
  EXPECT_EQ(after_forward("0.3.13", 257), "A=A B=A C=A");
}

// #976 (v0.3.15): 0 is never near; before, 0 is not under 0 either, so nothing is kept all the same.
TEST(V1, ReuseDistanceZeroKeepsNothing) {
  for (const char* release : {"0.3.12", "0.3.14", "0.3.15", "0.5.10"}) {
    TestEngine engine(release, {.live = 0, .reuse = 0});
    EXPECT_EQ(engine.run("t:ABC f:ABC"), "ok");
    EXPECT_THAT(engine.observer().all(EventKind::kKeep), IsEmpty()) << release;
  }
}

// The answer is cached by step id alone (eras.md, 8): what another module found at that step holds for this one.
TEST(V1, ReuseIsCachedByStep) {
  TestEngine engine("0.3.13", {.live = 0, .reuse = 257});
  ASSERT_EQ(engine.run("t:ABC t:ABC f:ABC"), "ok");
  EXPECT_EQ(engine.statuses().substr(0, 11), "A=A B=A C=A")
      << "the cache gives in the third pass what it gave before";
}

// At the end of backward every available param goes, persistent ones too; in-flight ones stay (eras.md, 6.1).
TEST(V1, EndOfBackwardReleasesAllButWhatIsInFlight) {
  TestEngine engine("0.5.10", {.persist = 65});
  ASSERT_EQ(engine.run("f:ABC"), "ok");
  engine.observer().events.clear();
  ASSERT_EQ(engine.run("b"), "ok");
  EXPECT_EQ(engine.statuses(), "A=N B=N C=N D=N E=N F=N");
  EXPECT_EQ(engine.observer().reason(EventKind::kRelease, "A"), Reason::kEndOfBackward);
}

// Longer than the trace (eras.md, 4.1): `list index out of range`.
TEST(V1, LongerPassRunsPastTheTrace) {
  TestEngine engine("0.5.10");
  EXPECT_EQ(engine.run("t:ABC t:ABC t:ABCD"), "IDX");
  EXPECT_EQ(engine.failure().message(), "IndexError: list index out of range");
  EXPECT_THAT(engine.failure().path, testing::Contains("get_params_to_prefetch"));
}

TEST(V1, TraceIsFrozenAtTheFirstStep) {
  TestEngine engine("0.5.10", {.accumulation = 2});
  ASSERT_EQ(engine.run("t:AB t:AB"), "ok");
  EXPECT_THAT(engine.observer().all(EventKind::kRecord), Not(IsEmpty()));
  engine.observer().events.clear();
  ASSERT_EQ(engine.run("t:AB t:AB"), "ok");
  EXPECT_THAT(engine.observer().all(EventKind::kRecord), IsEmpty());
}

// A gradient in flight is not waited for by anything at the boundary: the next forward uses weights gathered before the
// optimizer's update (eras.md, 6.1, "stale weights"). Here: no collective for B between the step and its use.
TEST(V1, WeightsPrefetchedBeforeTheStepAreUsedAfterIt) {
  TestEngine engine("0.5.10",
                    {.model = model().layers("ABC").also_below("X", "A"), .accumulation = 2, .world = 2});
  ASSERT_EQ(engine.run("t:ABC t:ABC t:ABC t:ABC"), "ok");
  ASSERT_EQ(engine.status("B"), "I");
  engine.ranks().clear();
  ASSERT_EQ(engine.run("f:AB"), "ok");
  EXPECT_THAT(engine.ranks().log, Not(testing::Contains("all_gather B")));
}

}  // namespace
}  // namespace zero3
