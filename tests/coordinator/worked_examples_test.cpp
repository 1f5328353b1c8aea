// The worked examples of eras.md, 7.2 and 7.4, and the reproducers of section 6, on every release there is.
//
// "ok | 0.6.0 IF(B INFLIGHT) | 0.15.3 ok" reads: ok from v0.3.12 on, from v0.6.0 on that failure, from v0.15.3 on ok.
// 0.5.11-dev is the untagged master before v0.6.0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::Config;
using test::history;
using test::model;
using test::outcome;
using test::TestEngine;

Config prefetch(int64_t elements) { return {.prefetch = elements}; }

// --- 7.2: a layer left out -----------------------------------------------------------------------------------------

// root prefetched {A, B}, A prefetched C; waiting for A flipped B; C does not match B; B is never fetched.
TEST(SkippedLayer, PrefetchedWithItsNeighbour) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC"), "ok | 0.5.11-dev IF(B AVAILABLE) | 0.15.3 ok");
}

TEST(SkippedLayer, PrefetchedAlone) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC", prefetch(1)), "ok | 0.5.11-dev IF(B INFLIGHT) | 0.15.3 ok");
}

// Nothing is prefetched. v0.6.0-v0.6.1 have no invalidation: the head of the queue is wrong.
TEST(SkippedLayer, NotPrefetchedAtAll) {
  const std::string tracing_error = "TE(B NOT_AVAILABLE, C AVAILABLE)";
  EXPECT_EQ(history("t:ABC t:ABC t:AC", prefetch(0)), "ok | 0.5.11-dev " + tracing_error + " | 0.6.2 ok");
  EXPECT_EQ(history("t:ABC t:ABC t:AC", {.live = 64}), "ok | 0.5.11-dev " + tracing_error + " | 0.6.2 ok");
}

TEST(SkippedLayer, ReuseDistanceIsIrrelevant) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC", {.reuse = 1'000'000}), "ok | 0.5.11-dev IF(B AVAILABLE) | 0.15.3 ok");
}

TEST(SkippedLayer, PersistentParamsAreNeverInFlight) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC", {.persist = 1'000'000}), "ok");
}

TEST(SkippedLayer, WholeModelInOnePrefetch) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC", prefetch(1'000'000)), "ok | 0.5.11-dev IF(B AVAILABLE) | 0.15.3 ok");
}

TEST(SkippedLayer, OneRecordedIterationIsEnough) {
  EXPECT_EQ(history("t:ABC t:AC"), "ok | 0.5.11-dev IF(B AVAILABLE) | 0.15.3 ok");
}

// The reset is per micro-batch, not per step.
TEST(SkippedLayer, WhileAccumulating) {
  EXPECT_EQ(history("t:ABC t:ABC t:AC", {.prefetch = 1, .accumulation = 2}),
            "ok | 0.5.11-dev IF(B INFLIGHT) | 0.15.3 ok");
}

TEST(SkippedLayer, AtTheEnd) {
  for (const int64_t bucket : {1, 100})
    EXPECT_EQ(history("t:ABC t:ABC t:AB", prefetch(bucket)), "ok | 0.5.11-dev IF(C INFLIGHT) | 0.15.3 ok")
        << bucket;
}

TEST(SkippedLayer, AtTheStart) {
  EXPECT_EQ(history("t:ABC t:ABC t:BC", prefetch(1)), "ok | 0.5.11-dev IF(A INFLIGHT) | 0.15.3 ok");
}

TEST(SkippedLayer, TwoInARow) {
  EXPECT_THAT(
      history("t:ABCD t:ABCD t:AD", prefetch(1)),
      testing::MatchesRegex("ok \\| 0.5.11-dev TE\\(.*\\) \\| 0.6.2 IF\\(B INFLIGHT\\) \\| 0.15.3 ok"));
}

TEST(SkippedLayer, AnotherInItsPlace) {
  EXPECT_THAT(
      history("t:ABC t:ABC t:ADC", prefetch(1)),
      testing::MatchesRegex("ok \\| 0.5.11-dev TE\\(.*\\) \\| 0.6.2 IF\\(B INFLIGHT\\) \\| 0.15.3 ok"));
}

// --- 7.2: longer, reordered, repeated ------------------------------------------------------------------------------

testing::Matcher<std::string> only_b1_traces(const std::string& before) {
  return testing::MatchesRegex(before + " \\| 0.5.11-dev TE\\(.*\\) \\| 0.6.2 ok");
}

// Growing is free; after the longer pass is recorded, dropping D fails.
TEST(LongerPass, AddsALayerAtTheEnd) {
  EXPECT_THAT(history("t:ABC t:ABC t:ABCD"), only_b1_traces("IDX"));
  for (const char* release : {"0.6.2", "0.6.4", "0.7.7", "0.9.2", "0.9.5", "0.10.0", "0.15.2"})
    EXPECT_THAT(outcome(release, "t:ABC t:ABC t:ABCD t:ABCD t:ABC"), testing::StartsWith("IF(D ")) << release;
  for (const char* release : {"0.15.3", "0.15.4", "0.19.8"})
    EXPECT_EQ(outcome(release, "t:ABC t:ABC t:ABCD t:ABCD t:ABC"), "ok") << release;
}

TEST(LongerPass, AddsALayerInside) {
  EXPECT_THAT(history("t:ABC t:ABC t:ABDC", prefetch(1)), only_b1_traces("IDX"));
  for (const char* release : {"0.6.2", "0.6.4", "0.9.5", "0.15.2"})
    EXPECT_THAT(outcome(release, "t:ABC t:ABC t:ABDC t:ABDC t:ABC", prefetch(1)),
                testing::StartsWith("IF(D "))
        << release;
}

TEST(LongerPass, InsertedLayerLeavesTheInFlightOneForLater) {
  EXPECT_THAT(history("t:AC t:AC t:ABC"), only_b1_traces("IDX"));
}

TEST(Reordered, AllThatWasPrefetchedIsUsed) {
  EXPECT_THAT(history("t:AB t:AB t:BA", prefetch(1)), only_b1_traces("ok"));
  EXPECT_THAT(history("t:ABC t:ABC t:ACB"), only_b1_traces("ok"));
}

TEST(Repeated, OnceLess) { EXPECT_EQ(outcome("0.15.2", "t:AAB t:AAB t:AB"), "ok"); }

// --- 7.2: evaluation -----------------------------------------------------------------------------------------------

// v0.6.0-v0.6.1 do not prefetch in evaluation.
TEST(Evaluation, SkippedLayer) {
  EXPECT_EQ(history("e:ABC e:ABC e:AC"), "ok | 0.6.2 IF(B AVAILABLE) | 0.15.3 ok");
}

// A strict prefix never mismatches: the mode stays COMPLETE and C in flight, until the next reset.
TEST(Evaluation, StrictPrefix) {
  EXPECT_EQ(history("e:ABC e:ABC e:AB", prefetch(1)), "ok | 0.6.2 IF(C INFLIGHT) | 0.15.3 ok");
  TestEngine engine("0.19.8", prefetch(1));
  engine.run("e:ABC e:ABC e:AB");
  EXPECT_EQ(engine.status("C"), "I");
  EXPECT_EQ(engine.run("e:ABC"), "ok");
}

TEST(Evaluation, LongerThanItsTrace) {
  EXPECT_EQ(history("e:AB e:AB e:ABC", prefetch(1)), "ok | 0.6.2 IDX | 0.9.0 ok");
}

TEST(Evaluation, AfterTrainingHasAnotherTrace) { EXPECT_EQ(history("t:ABC t:ABC e:AC", prefetch(1)), "ok"); }

// Until v0.3.13 no forward starts the steps anew: whatever runs beside the trace makes the next pass overrun it.
constexpr const char* kStepsRunOn = "IDX \\| 0.3.14 ok";

TEST(DirectCalls, RootNotCalled) {
  EXPECT_THAT(history("t:ABC t:ABC sub:AB t:ABC"), only_b1_traces(kStepsRunOn));
}

TEST(TwoForwards, OneBackward) {
  for (const int64_t bucket : {1, 100})
    EXPECT_THAT(history("t:ABC t:ABC f:ABC f:ABC b s", prefetch(bucket)), only_b1_traces(kStepsRunOn))
        << bucket;
}

// --- 7.4: modes ----------------------------------------------------------------------------------------------------

// The reset at the end of a no-grad forward is the evaluation coordinator's, whatever mode the model is in; a registry
// shared by both (v0.9.3-v0.9.5, #3462) shows it the training prefetches.
TEST(Modes, NoGradForwardInTrainMode) {
  EXPECT_EQ(history("t:ABC t:ABC F:ABC", prefetch(1)), "ok | 0.9.3 IF(B INFLIGHT) | 0.10.0 ok");
  for (const char* release : {"0.6.0", "0.6.1"})
    EXPECT_THAT(outcome(release, "t:ABC t:ABC F:ABC"), testing::StartsWith("IF(")) << release;
}

// v0.6.0-v0.6.1 froze the evaluation's trace: the first backward finds its queue empty.
TEST(Modes, TrainForwardOutstandingThenEvalForward) {
  EXPECT_EQ(history("e:ABC e:ABC t:ABC t:ABC f:ABC e:ABC", prefetch(1)),
            "ok | 0.5.11-dev TE(C AVAILABLE) | 0.6.2 ok | 0.6.4 NOTAVAIL(B INFLIGHT) | 0.9.3 ok | 0.10.0 "
            "NOTAVAIL(B INFLIGHT) | 0.15.4 ok");
}

TEST(Modes, EvalForwardWithGradThenSave) {
  const std::string eval = "e:ABC e:ABC E:AB";
  EXPECT_EQ(history(eval + " T w", prefetch(1)),
            "ATTR | 0.3.14 ok | 0.6.2 ETBR(C INFLIGHT) | 0.9.3 SIF(C INFLIGHT) | 0.10.0 ETBR(C INFLIGHT) | "
            "0.15.4 ok");
  EXPECT_EQ(history(eval + " w", prefetch(1)), "ATTR | 0.3.14 ok | 0.6.2 SIF(C INFLIGHT) | 0.15.3 ok");
}

TEST(Modes, BackwardOfModulesInEvalMode) { EXPECT_EQ(history("E:ABC b"), "ok | 0.9.0 EVAL | 0.15.4 ok"); }

// In v0.3.12-v0.3.13 prefetch works and every exit partitions (#867, #884 in v0.3.14).
TEST(Modes, GatherBetweenForwardAndBackward) {
  EXPECT_EQ(history("t:ABC t:ABC f:ABC gm:B", prefetch(1)),
            "CP(B INFLIGHT) | 0.3.14 ok | 0.6.4 CP(B INFLIGHT)");
  EXPECT_EQ(history("t:ABC t:ABC f:ABC g:B", prefetch(1)),
            "CP(B INFLIGHT) | 0.3.14 ok | 0.8.1 CP(B INFLIGHT)");
}

// From v0.15.4 an evaluation forward follows the training trace and leaves the backward's prefetches in flight.
TEST(Modes, GatherAfterEvaluation) {
  EXPECT_EQ(history("t:ABC t:ABC e:ABC gm:B", prefetch(1)),
            "CP(B INFLIGHT) | 0.3.14 ok | 0.15.4 CP(B INFLIGHT)");
  for (const char* saves : {"w", "c"})
    EXPECT_EQ(outcome("0.15.4", std::string("t:ABC t:ABC e:ABC ") + saves, prefetch(1)), "ok");
}

// The one way left to raise CP from DeepSpeed's own save path: an engine without optimizer has no prologue.
TEST(Modes, EngineWithoutOptimizer) {
  const Config inference = {.prefetch = 1, .optimizer = false};
  const std::string eval = "eo:ABC eo:ABC eo:AB";
  for (const char* take : {" gm:C", " sd"}) {
    for (const char* release : {"0.6.2", "0.9.5", "0.15.2"})
      EXPECT_EQ(outcome(release, eval + take, inference), "IF(C INFLIGHT)") << release;
    EXPECT_EQ(outcome("0.15.3", eval + take, inference), "ok");
    for (const char* release : {"0.15.4", "0.18.9", "0.19.8"})
      EXPECT_EQ(outcome(release, eval + take, inference), "CP(C INFLIGHT)") << release;
  }
}

TEST(Modes, UnwrapAfterEvaluation) {
  const std::string history_of = history("t:ABC t:ABC e:ABC r", prefetch(1));
  EXPECT_EQ(history_of, "ATTR | 0.15.0 ok | 0.15.4 CP(B INFLIGHT) | 0.19.2 ok");
}

// A module applied twice: its second backward application never releases; drained since #8148, sticky in #6726.
TEST(Repeated, StatusAfterBackward) {
  const auto status = [](const char* release) {
    TestEngine engine(release, prefetch(1));
    EXPECT_EQ(engine.run("t:AAB tb:AAB"), "ok");
    return engine.status("A");
  };
  for (const char* active : {"0.6.0", "0.9.5", "0.15.2", "0.15.4", "0.16.8", "0.19.2"})
    EXPECT_EQ(status(active), "A*") << active;
  for (const char* released : {"0.16.0", "0.16.7", "0.19.3", "0.19.8"})
    EXPECT_EQ(status(released), "N") << released;
}

// --- 6: saving while gradients accumulate --------------------------------------------------------------------------

Config t5_like(int accumulation) {
  return {.model = model().layers("ABC").also_below("X", "A"),
          .reuse = 1'000'000,
          .accumulation = accumulation,
          .input_grad = false};
}

// DeepSpeed#1686: a module registered under two parents, accumulation above 1, one finished step. The eras that cannot:
// no save yet (A1), a save that leaves everything gathered (A2); #1453 ends it.
TEST(SaveWhileAccumulating, SharedModule) {
  EXPECT_EQ(history("t:ABC t:ABC t:ABC w", t5_like(2)),
            "ATTR | 0.3.14 ok | 0.4.4 CP(B INFLIGHT) | 0.5.11-dev FREE(A "
            "AVAILABLE) | 0.6.0 ok");
}

TEST(SaveWhileAccumulating, AtTheBoundaryToo) {
  for (const char* release : {"0.4.4", "0.5.3", "0.5.4", "0.5.10"})
    EXPECT_EQ(outcome(release, "t:ABC t:ABC t:ABC t:ABC w", t5_like(2)), "CP(B INFLIGHT)") << release;
  EXPECT_EQ(outcome("0.5.10", "t:ABC t:ABC w", t5_like(2)), "ok") << "the first cycle is clean";
}

TEST(SaveWhileAccumulating, NotWithoutAccumulation) {
  EXPECT_EQ(outcome("0.5.10", "t:ABC t:ABC t:ABC w", t5_like(1)), "ok");
}

TEST(SaveWhileAccumulating, PlainModelIsClean) {
  EXPECT_EQ(outcome("0.5.10", "t:ABC t:ABC t:ABC w", {.reuse = 1'000'000, .accumulation = 2}), "ok");
}

TEST(SaveWhileAccumulating, ModuleAppliedTwiceInARow) {
  EXPECT_THAT(outcome("0.5.10", "t:AAB t:AAB t:AAB w", {.reuse = 1'000'000, .accumulation = 2}),
              testing::StartsWith("CP("));
}

// Without accumulation it needs an evaluation whose last module is such a one.
TEST(SaveWhileAccumulating, AfterAnEvaluation) {
  EXPECT_THAT(outcome("0.5.10", "t:BCA t:BCA e:BCA w", t5_like(1)), testing::StartsWith("CP("));
  EXPECT_EQ(outcome("0.5.10", "t:BCA t:BCA w", t5_like(1)), "ok");
  EXPECT_THAT(outcome("0.5.10", "t:BAA t:BAA e:BAA w"), testing::StartsWith("CP("));
  EXPECT_EQ(outcome("0.5.10", "t:BAA t:BAA w"), "ok");
}

// 6.2: nothing in save_checkpoint partitions a param in flight.
TEST(SaveWhileAccumulating, CheckpointIsSaved) {
  EXPECT_EQ(outcome("0.5.10", "t:ABC t:ABC t:ABC c", t5_like(2)), "ok");
}

// 6.3: what #1741 cured. The input needs no gradient, so A stays active; the untagged master saved without a prologue.
TEST(SaveWhileAccumulating, ActiveParamOfUntaggedMaster) {
  const Config config = {.accumulation = 2, .input_grad = false};
  EXPECT_EQ(history("t:ABC t:ABC t:ABC w", config),
            "ATTR | 0.3.14 ok | 0.5.11-dev FREE(A AVAILABLE) | 0.6.0 ok");
  EXPECT_EQ(outcome("0.5.11-dev", "t:ABC t:ABC w", config), "ok") << "a step clears it";
}

// The same state met by the user's own gather: until backward's leftovers are drained (#8148).
TEST(SaveWhileAccumulating, UsersOwnGatherOfAnActiveParam) {
  EXPECT_EQ(history("t:ABC t:ABC t:ABC gm:A", {.accumulation = 2, .input_grad = false}),
            "ok | 0.5.11-dev FREE(A AVAILABLE) | 0.19.3 ok");
}

// 6.4: between forward and backward.
TEST(SaveAfterForward, ParamsForTheBackwardAreInFlight) {
  const auto after_forward = [](const std::string& token) {
    return history("t:ABC t:ABC f:ABC " + token, prefetch(1));
  };
  EXPECT_EQ(after_forward("w"), "ATTR | 0.3.14 ok | 0.6.4 SIF(B INFLIGHT) | 0.15.3 ok");
  EXPECT_EQ(after_forward("c"), "ok | 0.6.4 SIF(B INFLIGHT) | 0.15.3 ok");
  EXPECT_EQ(after_forward("x"), "ATTR | 0.9.0 SIF(B INFLIGHT) | 0.15.3 ok");
  EXPECT_EQ(after_forward("os"), "ATTR | 0.15.2 SIF(B INFLIGHT) | 0.15.3 ok");
}

}  // namespace
}  // namespace zero3
