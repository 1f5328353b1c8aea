// The coordinator of v0.6.0 and later in an engine: what is fetched, prefetched, kept and released when, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::Config;
using test::history;
using test::model;
using test::outcome;
using test::RecordedEvent;
using test::TestEngine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kRecorded =
    "[0]fetch(root) [1]fetch(A) AG{A} REL A [2]fetch(B) AG{B} REL B [3]fetch(C) AG{C} REL C [4]fetch(root) "
    "[5]fetch(C) "
    "AG{C} REL C [6]fetch(B) AG{B} REL B [7]fetch(A) AG{A} REL A";
constexpr const char* kPrefetching =
    "[0]fetch(root) AG{AB} [1]fetch(A) AG{C} [2]fetch(B) [3]fetch(C) [4]fetch(root) [5]fetch(C) REL C "
    "[6]fetch(B) REL "
    "B [7]fetch(A) REL A";

// --- the trace's life ----------------------------------------------------------------------------------------------

// observed/v0.19.5.main.txt, D1: forward 1 records, forward 2 prefetches from its first module on.
TEST(TraceLife, NewestReleaseResetsBeforeEachForward) {
  TestEngine engine("0.19.8");
  EXPECT_EQ(engine.events("t:ABC"), std::string("reset RECORD ") + kRecorded);
  EXPECT_EQ(engine.events("t:ABC"), std::string("reset COMPLETE ") + kPrefetching);
}

// observed/v0.15.2.main.txt, D1: the reset is backward's last act.
TEST(TraceLife, UntilV0_15_3TheResetEndsTheBackward) {
  TestEngine engine("0.15.2");
  EXPECT_EQ(engine.events("t:ABC"), std::string(kRecorded) + " reset COMPLETE");
  EXPECT_EQ(engine.events("t:ABC"), std::string(kPrefetching) + " reset COMPLETE");
}

// The event log of eras.md, 7.2: cleaning throws away a prefetch that would have been of use (C is gathered again).
TEST(TraceLife, InvalidationCleansFromV0_15_3) {
  TestEngine engine("0.19.8");
  engine.run("t:ABC t:ABC");
  EXPECT_EQ(
      engine.events("t:AC"),
      "reset COMPLETE [0]fetch(root) AG{AB} [1]fetch(A) AG{C} INVALIDATE REL B REL C [2]fetch(C) AG{C} REL C "
      "[3]fetch(root) [4]fetch(C) AG{C} REL C [5]fetch(A) REL A");
  EXPECT_EQ(engine.observer().reason(EventKind::kRelease, "B"), Reason::kCleaned);
  EXPECT_THAT(engine.events("t:AC"), StartsWith("reset RECORD"));
}

// #3186 prints on rank 0, #7039 (v0.16.4) only if log_trace_cache_warnings asks for it.
TEST(TraceLife, InvalidationLineIsPrintedOnRank0) {
  const auto printed = [](std::string_view release, const Config& config) {
    TestEngine engine(release, config);
    engine.run("t:ABC t:ABC t:AC");
    return engine.observer().printed();
  };
  const auto line = "Invalidate trace cache @ step 2: expected module 2, but got module 3";
  for (const char* prints : {"0.9.0", "0.15.2", "0.15.4", "0.16.3"})
    EXPECT_THAT(printed(prints, {}), ElementsAre(line)) << prints;
  for (const char* silent : {"0.6.4", "0.8.3", "0.16.4", "0.19.8"})
    EXPECT_THAT(printed(silent, {}), IsEmpty()) << silent;
  EXPECT_THAT(printed("0.16.4", {.log_warnings = true}), ElementsAre(line));
  EXPECT_THAT(printed("0.15.2", {.rank = 1, .world = 2}), IsEmpty());
}

// --- what is prefetched --------------------------------------------------------------------------------------------

TEST(Prefetch, BucketMayBeOvershotByItsLastParam) {
  for (const auto& [bucket, first] :
       {std::pair(1, "AG{A}"), std::pair(64, "AG{A}"), std::pair(65, "AG{AB}")}) {
    TestEngine engine("0.19.8", {.prefetch = bucket});
    engine.run("t:ABC");
    EXPECT_THAT(engine.events("t:ABC"), HasSubstr(std::string("[0]fetch(root) ") + first + " [1]"));
  }
}

TEST(Prefetch, LiveLimitCountsWhatIsAvailable) {
  TestEngine engine("0.19.8", {.prefetch = 1000, .live = 130});
  engine.run("t:ABCD");
  EXPECT_THAT(engine.events("t:ABCD"), HasSubstr("[0]fetch(root) AG{ABC} [1]"));
  const auto ends = engine.observer().all(EventKind::kPrefetchEnd);
  EXPECT_EQ(ends[0].reason, Reason::kLiveLimit);
  EXPECT_EQ(ends[0].value, 192);
  EXPECT_EQ(ends[0].limit, 130);
}

// `min(max_live - n_available, bucket)` may be negative: the loop does not start.
TEST(Prefetch, NothingWhereTheLimitIsUsedUp) {
  TestEngine engine("0.19.8", {.live = 0});
  engine.run("t:ABC");
  EXPECT_THAT(engine.events("t:ABC"), HasSubstr("[0]fetch(root) [1]fetch(A) AG{A}"));
}

// #6726 zeroed the count of available elements in partition-all alone; rolled back in v0.16.8. An accumulating engine
// does not partition all after each backward, so that the count is one of the whole cycle.
TEST(Prefetch, AvailableCountIsZeroedAtResetOrAtPartitionAll) {
  const auto prefetched_at_root = [](std::string_view release) {
    TestEngine engine(release, {.prefetch = 1000, .live = 130, .accumulation = 4, .input_grad = false});
    engine.run("t:ABCD t:ABCD");
    return engine.events("t:ABCD").find("[0]fetch(root) AG{") != std::string::npos;
  };
  // A stays active and available: its 64 elements are counted for ever in v0.16.0-v0.16.7, forgotten at resets else
  for (const char* release : {"0.15.4", "0.16.0", "0.16.7", "0.16.8", "0.19.2"})
    EXPECT_TRUE(prefetched_at_root(release)) << release;
}

// eras.md, 9.12: until #1916 (v0.6.4) available params were chosen and used the budget up.
TEST(Prefetch, AvailableParamsAteTheBudgetBeforeV0_6_4) {
  const auto second_iteration = [](std::string_view release) {
    TestEngine engine(release, {.prefetch = 1});
    engine.run("t:ABC");
    return engine.events("t:ABC");
  };
  // observed: D1b
  EXPECT_THAT(second_iteration("0.6.0"), HasSubstr("[3]fetch(C) [4]fetch(root) AG{B} [5]fetch(C) AG{A}"));
  EXPECT_THAT(second_iteration("0.15.2"),
              HasSubstr("[3]fetch(C) AG{B} [4]fetch(root) AG{A} [5]fetch(C) REL C"));
}

// v0.6.0-v0.6.1 prefetch only while module.training (#1884 lifted it).
TEST(Prefetch, EvaluationPrefetchesFromV0_6_2) {
  const auto prefetches = [](std::string_view release) {
    TestEngine engine(release);
    engine.run("e:ABC e:ABC");
    return !engine.observer().all(EventKind::kPrefetch).empty();
  };
  EXPECT_FALSE(prefetches("0.6.1"));
  EXPECT_TRUE(prefetches("0.6.2"));
  EXPECT_TRUE(prefetches("0.19.8"));
}

TEST(Prefetch, EveryEndHasItsReason) {
  const auto reason_at_root = [](std::string_view release, const Config& config) {
    TestEngine engine(release, config);
    engine.run("t:ABC");
    engine.events("t:ABC");
    return engine.observer().all(EventKind::kPrefetchEnd).front().reason;
  };
  EXPECT_EQ(reason_at_root("0.19.8", {.prefetch = 100}), Reason::kBucketFull);
  EXPECT_EQ(reason_at_root("0.19.8", {.prefetch = 1000}), Reason::kQueueEmpty);
  EXPECT_EQ(reason_at_root("0.19.8", {.prefetch = 0}), Reason::kBucketZero);
  TestEngine recording("0.19.8");
  recording.run("t:A");
  EXPECT_EQ(recording.observer().reason(EventKind::kPrefetchEnd), Reason::kNoTrace);
}

TEST(Prefetch, ChosenParamNamesTheModuleAndStepItIsFor) {
  TestEngine engine("0.19.8");
  engine.run("t:ABC");
  engine.events("t:ABC");
  const auto chosen = engine.observer().all(EventKind::kPrefetch, "C");
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen.front().module, "C");
  EXPECT_EQ(chosen.front().step, 3);
}

// v0.10.0, #3784: a bucket of params without elements alone is not gathered (golden program empty-prefetched-alone).
// They leave the queue all the same.
TEST(Prefetch, NoElementsAreNoReasonToGather) {
  const auto prefetched = [](const char* release) {
    TestEngine engine(release,
                      {.model = model().layer("A").layer("B", {{64}, {0}}), .prefetch = 100, .persist = -1});
    engine.run("t:AB");
    engine.run("t:AB");
    std::vector<std::string> params;
    for (const RecordedEvent& event : engine.observer().all(EventKind::kPrefetch))
      params.push_back(event.params);
    return params;
  };
  EXPECT_THAT(prefetched("0.9.5"), ElementsAre("A", "B", "B.p1"));
  EXPECT_THAT(prefetched("0.10.0"), ElementsAre("A", "B"));
}

// --- waiting -------------------------------------------------------------------------------------------------------

// eras.md, 7.1: a param leaves the registry only when a module owning it is fetched, whatever its status.
TEST(Wait, EachParamOfAGroupIsWaitedForByItsOwner) {
  TestEngine engine("0.19.8");
  engine.run("t:ABC");
  engine.events("t:ABC");
  std::vector<std::string> waits;
  for (const RecordedEvent& event : engine.observer().all(EventKind::kWait))
    waits.push_back(event.module + " for " + event.params);
  EXPECT_THAT(waits, ElementsAre("A for A", "B for B", "C for C"));
}

// The handle of a group is one collective: one wait on it.
TEST(Wait, GroupIsOneCollective) {
  TestEngine engine("0.19.8", {.world = 2});
  engine.run("t:ABC");
  engine.ranks().clear();
  engine.run("f:ABC");
  EXPECT_THAT(engine.ranks().log, ElementsAre("broadcast_ints [8]", "broadcast_ints [0, 1, 2, 3, 0, 3, 2, 1]",
                                              testing::_, testing::_, testing::_, testing::_, "all_gather AB",
                                              "wait", "all_gather C", "wait"));
}

// --- what is released ----------------------------------------------------------------------------------------------

// RECORD mode frees every param at once, persistent ones too; they come back at _post_step (eras.md, 9).
TEST(ReleaseOf, RecordingReleasesEverythingAtOnce) {
  TestEngine engine("0.19.8", {.reuse = 1'000'000, .persist = 64});
  engine.run("f:AB");
  EXPECT_EQ(engine.statuses(), "A=N B=N C=N D=N E=N F=N");
  EXPECT_EQ(engine.observer().reason(EventKind::kRelease, "A"), Reason::kTraceIncomplete);
  engine.run("b s");
  EXPECT_EQ(engine.statuses(), "A=A B=A C=A D=A E=A F=A");
  engine.run("f:AB");
  EXPECT_EQ(engine.status("A"), "A");
  EXPECT_EQ(engine.observer().reason(EventKind::kKeep, "A"), Reason::kPersists);
}

TEST(ReleaseOf, WithinReuseDistanceNothingGoes) {
  TestEngine engine("0.19.8", {.prefetch = 0, .reuse = 1'000'000});
  engine.run("t:ABC f:ABC");
  EXPECT_EQ(engine.statuses(), "A=A B=A C=A D=N E=N F=N");
  const auto kept = engine.observer().all(EventKind::kKeep, "B").back();
  EXPECT_EQ(kept.reason, Reason::kReusedSoon);
  EXPECT_EQ(kept.step, 6);
}

// #2016 (v0.6.6): the prefetcher consumed the backward entry of a param that was available, so the forward keeps it.
TEST(ReleaseOf, SkippedUseIsKeptFromV0_6_6) {
  const auto after_forward = [](std::string_view release) {
    TestEngine engine(release);
    engine.run("t:ABC f:ABC");
    return engine.status("A");
  };
  EXPECT_EQ(after_forward("0.6.5"), "N");
  EXPECT_EQ(after_forward("0.6.6"), "A");
  TestEngine engine("0.19.8");
  engine.run("t:ABC f:ABC");
  EXPECT_EQ(engine.observer().reason(EventKind::kKeep, "A"), Reason::kUseSkipped);
}

// The memo of __params_to_release outlives an invalidation. eras.md, 5.6, Z2: after an evaluation-only trace, C at step
// 4 was cached as releasable, and stayed so under the later training trace.
TEST(ReleaseOf, MemoSurvivesARecordedAgainTrace) {
  const auto c_after_forward = [](const std::string& before) {
    TestEngine engine("0.19.8", {.reuse = 1'000'000});
    EXPECT_EQ(engine.run(before + " t:ABC t:ABC t:ABC f:ABC"), "ok");
    return engine.status("C");
  };
  EXPECT_EQ(c_after_forward(""), "A");
  EXPECT_EQ(c_after_forward("e:ABC e:ABC"), "N");
}

TEST(ReleaseOf, ParamOfAnotherRunningModuleStays) {
  TestEngine engine("0.19.8", {.model = model().layers("AB").activation("C").tied("C", "A").layer("A.d")});
  engine.run("t:A[C]B");
  EXPECT_EQ(engine.observer().all(EventKind::kKeep, "A").front().reason, Reason::kStillActive);
}

// --- backward's stack (v0.19.3, #8148) -----------------------------------------------------------------------------

// A has no input that requires grad, so its post-backward hook never comes: drained at the end of backward.
TEST(Leftovers, AreDrainedFromV0_19_3) {
  const auto after_backward = [](std::string_view release) {
    TestEngine engine(release, {.input_grad = false});
    engine.run("t:ABC tb:ABC");
    return engine.status("A");
  };
  EXPECT_EQ(after_backward("0.6.0"), "A*");
  EXPECT_EQ(after_backward("0.19.2"), "A*");
  EXPECT_EQ(after_backward("0.19.3"), "N");
  TestEngine engine("0.19.3", {.input_grad = false});
  engine.run("t:ABC tb:ABC");
  EXPECT_EQ(engine.observer().reason(EventKind::kRelease, "A"), Reason::kLeftover);
}

// A frozen param gathered in a recomputation belongs to the backward module around it, which frees it; before, the
// recomputed forward's own release did (transformers#47254: "recomputed shape [0]").
TEST(Leftovers, FrozenParamOfARecomputationIsKeptForItsBackward) {
  const Config block = {.model = model().activation("A").layer("A.n").layer("A.l").frozen("n"),
                        .prefetch = 0};
  const auto backward = [&](std::string_view release) {
    TestEngine engine(release, block);
    EXPECT_EQ(engine.run("t:A?[nl] f:A?[nl]"), "ok");
    return engine.events("b");
  };
  EXPECT_THAT(backward("0.19.2"), HasSubstr("[8]fetch(n) AG{n} REL n [9]fetch(l)"));
  EXPECT_THAT(backward("0.19.3"), HasSubstr("[8]fetch(n) AG{n} [9]fetch(l) REL l REL n"));
}

// --- order of Python's sets ----------------------------------------------------------------------------------------

// eras.md, 5.9: a seed changes the order in which sets iterate, never what happens.
TEST(Seed, ChangesOrderButNoOutcome) {
  const auto run = [](uint64_t seed, std::string* log) {
    TestEngine engine("0.15.2",
                      {.model = model().layer("A", {{8}, {8}, {8}}).layer("B", {{8}, {8}, {8}}).layers("C"),
                       .prefetch = 1000,
                       .seed = seed});
    const std::string end = engine.run("t:ABC t:ABC t:AC");
    *log = engine.failure().text;
    return end + " " + engine.statuses();
  };
  std::string by_id;
  const std::string expected = run(0, &by_id);
  EXPECT_THAT(expected, StartsWith("IF(B AVAILABLE, B.p1 AVAILABLE, B.p2 AVAILABLE)"));
  bool other_order = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::string text;
    EXPECT_EQ(run(seed, &text), expected) << seed;
    other_order = other_order || text != by_id;
  }
  EXPECT_TRUE(other_order);
}

// --- error texts (eras.md, 4.1) ------------------------------------------------------------------------------------

std::string message(std::string_view release, const std::string& program, const Config& config = {}) {
  TestEngine engine(release, config);
  EXPECT_NE(engine.run(program), "ok") << release;
  return engine.failure().message();
}

TEST(Text, StillHaveInflightParams) {
  EXPECT_EQ(message("0.9.5", "t:ABC t:ABC t:AC"),
            "RuntimeError: still have inflight params [<bound method "
            "Init._convert_to_deepspeed_param.<locals>.ds_summary of Parameter containing:\ntensor([[...]], "
            "requires_grad=True)>]");
  EXPECT_EQ(
      message("0.10.0", "t:ABC t:ABC t:AC"),
      "RuntimeError: still have inflight params [{'id': 1, 'status': 'AVAILABLE', 'numel': 64, 'ds_numel': "
      "64, "
      "'shape': (8, 8), 'ds_shape': (8, 8), 'requires_grad': True, 'grad_shape': None, 'persist': False, "
      "'active_sub_modules': set(), 'ds_tensor.shape': torch.Size([64])}]");
}

TEST(Text, StillInFlight) {
  EXPECT_EQ(
      message("0.15.2", "t:ABC t:ABC f:ABC w", {.prefetch = 1}),
      "RuntimeError: param {'id': 1, 'status': 'INFLIGHT', 'numel': 64, 'ds_numel': 64, 'shape': (8, 8), "
      "'ds_shape': (8, 8), 'requires_grad': True, 'grad_shape': None, 'persist': False, "
      "'active_sub_modules': "
      "set(), 'ds_tensor.shape': torch.Size([64])} still in flight");
}

TEST(Text, ExpectedToBeReleased) {
  EXPECT_EQ(message("0.8.3", "e:ABC e:ABC E:AB T w", {.prefetch = 1}),
            "RuntimeError: {'id': 2, 'status': 'INFLIGHT', 'numel': 64, 'ds_numel': 64, 'shape': (8, 8), "
            "'ds_shape': "
            "(8, 8), 'requires_grad': True, 'grad_shape': None, 'persist': False, 'active_sub_modules': "
            "set()} expected "
            "to be released");
}

TEST(Text, NotAvailable) {
  EXPECT_THAT(message("0.10.0", "e:ABC e:ABC t:ABC t:ABC f:ABC e:ABC", {.prefetch = 1}),
              StartsWith("AssertionError: {'id': 1, 'status': 'INFLIGHT', 'numel': 64, 'ds_numel': 64"));
}

TEST(Text, TracingErrorOnOneLine) {
  EXPECT_THAT(
      message("0.6.0", "t:ABC t:ABC t:AC", {.prefetch = 0}),
      testing::MatchesRegex("RuntimeError: tracing error at step 2: expected the next 1 parameters in the "
                            "parameter fetch queue to be \\(.'id': 2, .*,\\) but got \\(.'id': 1, .*,\\)."));
}

// v0.6.2-v0.6.3: a module with own params and children is queued after its children (eras.md, 3.15).
TEST(Text, TracingErrorNamesTheModule) {
  const Config parent = {.model = model().layers("A").layer("A.b"), .prefetch = 0};
  EXPECT_EQ(history("t:A[b] t:A[b]", parent), "ok | 0.6.2 TE(A AVAILABLE, b NOT_AVAILABLE) | 0.6.4 ok");
  EXPECT_THAT(
      message("0.6.3", "t:A[b] t:A[b]", parent),
      StartsWith("RuntimeError: tracing error at step 1: \nmodule id: 1, training: True\nexpected the next 1 "
                 "parameters in the parameter fetch queue to be ({'id': 0, 'status': 'AVAILABLE'"));
  EXPECT_THAT(message("0.6.3", "t:A[b] t:A[b]", parent),
              HasSubstr(",) \nbut got \n ({'id': 1, 'status': 'NOT_AVAIL"));
}

// From v0.6.4 on it takes a param that the recorded pass did not know; ids are then debug names.
TEST(Text, TracingErrorWithDebugNames) {
  TestEngine engine("0.15.2", {.prefetch = 0});
  engine.run("t:ABC t:ABC");
  engine.module("B").register_external(&engine.param("A"));
  EXPECT_THAT(engine.run("t:ABC"), StartsWith("TE("));
  EXPECT_THAT(
      engine.failure().text,
      StartsWith("tracing error at step 2: \nmodule id: 2, training: True\nexpected the next 2 parameters in "
                 "the parameter fetch queue to be ({'id': 'name=A.weight id=0', 'status': 'AVAILABLE'"));
}

// DeepSpeed#3528: the registry still holds params that another coordinator used and partitioned. One coordinator, or
// one registry, knows; the invalidation of v0.15.3 cleans.
TEST(Text, AlreadyInRegistry) {
  const Config one_bucket = {.prefetch = 1000};
  const std::string program = "t:ABCD t:ABCD f:A e:ABCD f:ABCD";
  for (const char* release : {"0.9.2", "0.10.0", "0.14.4", "0.15.2"}) {
    EXPECT_EQ(outcome(release, program, one_bucket), "INREG(B INFLIGHT)") << release;
    EXPECT_THAT(message(release, program, one_bucket), testing::EndsWith("} already in registry")) << release;
  }
  for (const char* release : {"0.9.3", "0.9.5", "0.15.3", "0.15.4", "0.19.4"})
    EXPECT_THAT(outcome(release, program, one_bucket), testing::Not(StartsWith("INREG"))) << release;
}

}  // namespace
}  // namespace zero3
