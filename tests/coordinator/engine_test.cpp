// What a training script calls: accumulation, saving, gathering, unwrapping, several engines, several ranks.
#include "coordinator/engine.h"

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
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string failure(std::string_view release, const std::string& program, const Config& config = {}) {
  TestEngine engine(release, config);
  EXPECT_NE(engine.run(program), "ok") << release;
  return engine.failure().message();
}

// --- step ----------------------------------------------------------------------------------------------------------

// Between accumulation boundaries step() does not touch the optimizer (eras.md, 5.7).
TEST(Step, PartitionsAllAtTheBoundaryOnly) {
  TestEngine engine("0.15.2", {.accumulation = 2, .input_grad = false});
  ASSERT_EQ(engine.run("t:AB"), "ok");
  EXPECT_EQ(engine.status("A"), "A*");
  ASSERT_EQ(engine.run("t:AB"), "ok");
  EXPECT_EQ(engine.status("A"), "N");
  EXPECT_EQ(engine.observer().reason(EventKind::kRelease, "A"), Reason::kPartitionAll);
}

TEST(Step, GathersPersistentParamsUnlessGradientsOverflowed) {
  TestEngine engine("0.19.8", {.persist = 64});
  ASSERT_EQ(engine.run("t:AB"), "ok");
  EXPECT_EQ(engine.statuses(), "A=A B=A C=A D=A E=A F=A");
  EXPECT_EQ(engine.observer().reason(EventKind::kAllGather), Reason::kPersistent);
  ASSERT_EQ(engine.run("to:AB"), "ok");
  EXPECT_EQ(engine.statuses(), "A=N B=N C=N D=N E=N F=N");
}

// The offload object in the optimizer's place has no step; from #7215 (v0.17.1) on the checkpoint engine, which is None
// there, is asked first.
TEST(Step, WithoutOptimizerIsRefused) {
  EXPECT_EQ(failure("0.15.2", "eo:AB s", {.optimizer = false}),
            "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute 'step'");
  EXPECT_EQ(failure("0.19.8", "eo:AB s", {.optimizer = false}),
            "AttributeError: 'NoneType' object has no attribute 'is_decoupled'");
}

// --- methods that a release does not have --------------------------------------------------------------------------

TEST(Missing, AreAttributeErrorsOfThatRelease) {
  EXPECT_EQ(history("w"), "ATTR | 0.3.14 ok");
  EXPECT_EQ(history("x"), "ATTR | 0.9.0 ok");
  EXPECT_EQ(history("r"), "ATTR | 0.15.0 ok");
  EXPECT_EQ(history("os"), "ATTR | 0.15.2 ok");
  EXPECT_EQ(failure("0.8.3", "x"),
            "AttributeError: 'DeepSpeedEngine' object has no attribute 'empty_partition_cache'");
}

// #2009 put the offload object in the optimizer's place; #4171 (v0.10.2) asks whether it has the prologue.
TEST(Missing, PrologueOfAnEngineWithoutOptimizer) {
  for (const char* raises : {"0.6.6", "0.9.5", "0.10.1"}) {
    for (const char* saves : {"w", "c"}) {
      EXPECT_EQ(failure(raises, saves, {.optimizer = false}),
                "AttributeError: 'DeepSpeedZeRoOffload' object has no attribute 'checkpoint_event_prologue'")
          << raises;
    }
  }
}

// --- save, load ----------------------------------------------------------------------------------------------------

// Per module, depth first: gather its own params with modifier_rank 0, broadcast, partition (eras.md, 5.7).
TEST(Save16bit, GathersModuleByModule) {
  TestEngine engine("0.19.8", {.model = model().layers("AB").layer("B.c"), .world = 2});
  ASSERT_EQ(engine.run("w"), "ok");
  EXPECT_THAT(engine.ranks().log,
              ElementsAre("all_gather A", "wait", "broadcast A from 0", "all_gather B", "wait",
                          "broadcast B from 0", "all_gather c", "wait", "broadcast c from 0"));
}

TEST(Save16bit, WithoutTheSettingNothingHappens) {
  TestEngine engine("0.19.8", {.gather_on_save = false, .world = 2});
  EXPECT_EQ(engine.run("w"), "ok");
  EXPECT_THAT(engine.ranks().log, IsEmpty());
}

// v0.3.14-v0.4.3 gathered with modifier_rank None, whose exit left everything gathered (#893; #1223 in v0.4.4).
TEST(Save16bit, LeavesTheModelGatheredUntilV0_4_3) {
  const auto after_save = [](std::string_view release) {
    TestEngine engine(release, {.model = model().layers("AB")});
    EXPECT_EQ(engine.run("w"), "ok");
    return engine.statuses();
  };
  EXPECT_EQ(after_save("0.3.14"), "A=A B=A");
  EXPECT_EQ(after_save("0.4.3"), "A=A B=A");
  EXPECT_EQ(after_save("0.4.4"), "A=N B=N");
}

TEST(Save, EpilogueBringsPersistentParamsBack) {
  for (const char* saves : {"w", "c", "l"}) {
    TestEngine engine("0.19.8", {.model = model().layer("A", {{8}}).layers("B"), .persist = 8});
    ASSERT_EQ(engine.run(std::string("t:AB t:AB ") + saves), "ok");
    EXPECT_EQ(engine.statuses(), "A=A B=N") << saves;
  }
}

// empty_partition_cache has no epilogue.
TEST(Save, EmptyPartitionCacheKeepsNothing) {
  TestEngine engine("0.19.8", {.persist = 64});
  ASSERT_EQ(engine.run("t:AB t:AB x"), "ok");
  EXPECT_EQ(engine.statuses(), "A=N B=N C=N D=N E=N F=N");
}

// #1741 for save_16bit_model: the prologue clears what accumulation left active.
TEST(Save, MidAccumulationPassesFromV0_6_0) {
  const Config config = {.accumulation = 2, .input_grad = false};
  for (const char* release : {"0.6.0", "0.15.2", "0.19.8"}) {
    EXPECT_EQ(outcome(release, "t:ABC t:ABC t:ABC w", config), "ok") << release;
    EXPECT_EQ(outcome(release, "t:ABC t:ABC t:ABC c", config), "ok") << release;
  }
}

TEST(Path, OfAFailedSaveNamesEveryFunction) {
  TestEngine engine("0.15.2", {.prefetch = 1});
  ASSERT_EQ(engine.run("t:ABC t:ABC f:ABC w"), "SIF(B INFLIGHT)");
  EXPECT_THAT(engine.failure().path, ElementsAre("save_16bit_model", "_zero3_consolidated_16bit_state_dict",
                                                 "checkpoint_event_prologue", "_partition_all_parameters",
                                                 "partition_all_parameters", "release_and_reset_all"));
}

// --- GatheredParameters --------------------------------------------------------------------------------------------

TEST(Gathered, ExitWithoutModifierPartitionsFromV0_8_1) {
  const auto after = [](std::string_view release, const char* token) {
    TestEngine engine(release);
    EXPECT_EQ(engine.run(token), "ok");
    return engine.status("B");
  };
  EXPECT_EQ(after("0.3.13", "g:B"), "N");
  EXPECT_EQ(after("0.3.14", "g:B"), "A");
  EXPECT_EQ(after("0.8.0", "g:B"), "A");
  EXPECT_EQ(after("0.8.1", "g:B"), "N");
  EXPECT_EQ(after("0.8.0", "gm:B"), "N");
}

// #3819 (v0.10.0): sorted by ds_id, duplicates removed.
TEST(Gathered, OrderAndDuplicates) {
  const auto collectives = [](std::string_view release) {
    TestEngine engine(release, {.world = 2});
    EXPECT_EQ(engine.run("gm:CAC"), "ok");
    return engine.ranks().log;
  };
  EXPECT_THAT(collectives("0.9.5"), ElementsAre("all_gather CA", "wait", "broadcast C from 0",
                                                "broadcast A from 0", "broadcast C from 0"));
  EXPECT_THAT(collectives("0.10.0"),
              ElementsAre("all_gather AC", "wait", "broadcast A from 0", "broadcast C from 0"));
}

// #8157 (v0.19.4).
TEST(Gathered, NestedContextsMustNotOverlap) {
  const auto nested = [](std::string_view release, const char* inner) {
    TestEngine engine(release);
    EXPECT_EQ(engine.engine().gather_enter(engine.params("ABC"), -1), nullptr);
    const Raised raised = engine.engine().gather_enter(engine.params(inner), 0);
    return raised ? raised->message() : "";
  };
  EXPECT_EQ(nested("0.19.3", "CB"), "");
  EXPECT_EQ(nested("0.19.4", "D"), "");
  EXPECT_EQ(
      nested("0.19.4", "CDB"),
      "RuntimeError: Nested GatheredParameters contexts cannot overlap parameters; parameter ds_ids already "
      "gathered by an outer context: [1, 2]");
}

TEST(Gathered, ContextsOneAfterTheOtherDoNotOverlap) {
  EXPECT_EQ(outcome("0.19.8", "gm:AB g:AB gm:AB"), "ok");
}

TEST(Gathered, InnerContextPartitionsWhatTheOuterHoldsUntilV0_19_3) {
  TestEngine engine("0.15.2");
  ASSERT_EQ(engine.engine().gather_enter(engine.params("AB"), -1), nullptr);
  ASSERT_EQ(engine.run("g:B"), "ok");
  EXPECT_EQ(engine.statuses().substr(0, 7), "A=A B=N");
  EXPECT_EQ(engine.engine().gather_exit(), nullptr);
}

// --- unwrap, hooks registered again --------------------------------------------------------------------------------

// eras.md, 3.39: re-registration while a recording is pending gives every module a new id.
TEST(Unwrap, RecordingPendingLosesItsSteps) {
  EXPECT_EQ(history("t:ABC r t:ABC"), "ATTR | 0.15.0 ok | 0.15.4 IDX | 0.19.2 ok");
  EXPECT_EQ(failure("0.18.9", "t:ABC r t:ABC"), "IndexError: pop from an empty deque");
}

TEST(Unwrap, GathersEverythingForTheBlock) {
  TestEngine engine("0.19.8", {.model = model().layers("AB")});
  ASSERT_EQ(engine.engine().unwrap_enter(), nullptr);
  EXPECT_EQ(engine.statuses(), "A=A B=A");
  EXPECT_TRUE(engine.module("A").forward_pre_hooks.empty());
  ASSERT_EQ(engine.engine().unwrap_exit(), nullptr);
  EXPECT_EQ(engine.statuses(), "A=N B=N");
  EXPECT_FALSE(engine.module("A").forward_pre_hooks.empty());
}

// #8043 (v0.19.2).
TEST(Unwrap, RegistrationInvalidatesFromV0_19_2) {
  const auto invalidations = [](std::string_view release) {
    TestEngine engine(release);
    EXPECT_EQ(engine.run("t:ABC t:ABC"), "ok");
    engine.observer().events.clear();
    EXPECT_EQ(engine.run("h"), "ok");
    return engine.observer().all(EventKind::kInvalidate).size();
  };
  EXPECT_EQ(invalidations("0.19.1"), 0U);
  EXPECT_EQ(invalidations("0.19.2"), 1U);
}

// --- several engines in a process ----------------------------------------------------------------------------------

// DeepSpeed#3068, Lightning#17523: two engines on one model. Both engines' hooks run at every forward; each has its
// own registry until #3462 (v0.9.3) hangs it on the module.
TEST(TwoEngines, OnOneModelShareItsHooks) {
  TestEngine first("0.19.8", {.model = model().layers("AB")});
  TestEngine second = first.another();
  ASSERT_EQ(first.run("f:A"), "ok");
  EXPECT_EQ(first.observer().all(EventKind::kFetch).size(), 4U) << "root and A, by both";
  EXPECT_EQ(first.statuses(), second.statuses());
}

TEST(TwoEngines, OnDifferentRootsCountIdsOn) {
  const Config two_models = {.model = model().activation("L").layer("L.a").activation("R").layer("R.b")};
  TestEngine whole("0.19.8", two_models);
  const int last = whole.module("b").ds_id;
  TestEngine part = whole.another("R");
  EXPECT_EQ(part.module("R").ds_id, last);
  EXPECT_EQ(part.module("b").ds_id, last + 1);
}

// Held against real runs of v0.4.4, v0.5.10, v0.6.0, v0.6.4, v0.9.5, v0.13.5, v0.15.2, v0.18.9, v0.19.3 and v0.19.8.
// Every engine that trains a param has a hook on its gradient: it is in the buckets of both.
TEST(TwoEngines, ThatTrainOneParamPutItsGradientIntoBothBuckets) {
  for (const char* release : {"0.6.0", "0.19.8"}) {
    TestEngine first(release, {.model = model().layers("AB")});
    TestEngine second = first.another();
    EXPECT_EQ(first.run("t:A t:A"), "ok") << "each takes its own out again";
    EXPECT_NE(second.run("t:A"), "ok");
    EXPECT_EQ(second.failure().kind, FailureKind::kGradientTwice) << release;
    EXPECT_EQ(second.failure().message(), "AssertionError: ");
  }
  TestEngine first("0.19.8", {.model = model().layers("AB")});
  TestEngine second = first.another();
  EXPECT_EQ(first.run("t:A"), "ok");
  EXPECT_NE(second.run("t:B"), "ok");
  EXPECT_EQ(second.failure().message(), "AttributeError: 'NoneType' object has no attribute 'numel'");
}

TEST(TwoEngines, ThatTrainOneParamNeedABufferInV1) {
  for (const auto& [release, name] : {std::pair("0.5.8", "FP16_DeepSpeedZeroOptimizer_Stage3"),
                                      std::pair("0.5.10", "DeepSpeedZeroOptimizer_Stage3")}) {
    TestEngine first(release, {.model = model().layers("AB")});
    TestEngine second = first.another();
    EXPECT_NE(first.run("t:A"), "ok");
    EXPECT_EQ(first.failure().message(),
              std::string("AttributeError: '") + name + "' object has no attribute 'ipg_index'");
  }
}

// --- several ranks -------------------------------------------------------------------------------------------------

TEST(Ranks, EveryRankLaunchesTheSameCollectives) {
  const auto collectives = [](int rank) {
    TestEngine engine("0.19.8", {.rank = rank, .world = 2});
    EXPECT_EQ(engine.run("t:ABC t:ABC t:AC w"), "ok");
    return engine.ranks().log;
  };
  EXPECT_EQ(collectives(0), collectives(1));
}

// Only the other ranks raise; rank 0 compares with itself.
TEST(Ranks, DisagreementIsRaisedAtTheReset) {
  TestEngine engine("0.15.2", {.rank = 1, .world = 2});
  engine.ranks().rank0_answers = {{0, 1, 3, 0, 3, 1}};
  EXPECT_EQ(engine.run("t:AB"), "DISAGREE");
  EXPECT_EQ(engine.failure().message(),
            "RuntimeError: disagreement between rank0 and rank1: rank0: [0, 1, 3, 0, 3, 1], rank1: [0, 1, 2, "
            "0, 2, 1]");
  EXPECT_THAT(engine.failure().path,
              ElementsAre("backward", "backward", "reset_step", "assert_ints_same_as_other_ranks"));
}

TEST(Ranks, HangReachesTheCaller) {
  TestEngine engine("0.15.2", {.rank = 1, .world = 2});
  engine.ranks().hang_in("all_gather B");
  EXPECT_EQ(engine.run("t:AB"), "HANG");
  EXPECT_EQ(engine.failed_at(), "t:AB");
  EXPECT_EQ(engine.failure().text, "rank 1 never joins all_gather B");
}

TEST(Ranks, HangInABroadcastOfASave) {
  TestEngine engine("0.19.8", {.world = 2});
  engine.ranks().hang_in("broadcast A from 0");
  EXPECT_EQ(engine.run("w"), "HANG");
  EXPECT_THAT(engine.failure().path, Contains("__exit__"));
}

// --- leaf modules --------------------------------------------------------------------------------------------------

// #4966: one fetch of all that lies below, whatever of it runs.
TEST(Leaf, FetchesAllBelowItAtOnce) {
  const Config moe = {.model = model().activation("M").layer("M.x").layer("M.y").leaf("M").layers("H"),
                      .prefetch = 0};
  TestEngine leaf("0.19.8", moe);
  EXPECT_THAT(leaf.events("f:M[x]H"), HasSubstr("[1]fetch(M) AG{xy} REL x REL y [2]fetch(H)"));
  TestEngine before("0.12.6", moe);
  EXPECT_THAT(before.events("f:M[x]H"), HasSubstr("[1]fetch(M) [2]fetch(x) AG{x} REL x [3]fetch(H)"));
}

TEST(Leaf, RoutingDoesNotInvalidate) {
  const Config moe = {.model = model().activation("M").layer("M.x").layer("M.y").leaf("M").layers("H")};
  EXPECT_EQ(outcome("0.15.2", "e:M[x]H e:M[x]H e:M[y]H", moe), "ok");
  EXPECT_EQ(outcome("0.12.6", "e:M[x]H e:M[x]H e:M[y]H", moe), "IF(x AVAILABLE)");
}

// --- zero-sized params ---------------------------------------------------------------------------------------------

// #3784 (v0.10.0) gathers only if elements are missing; a param of none then never becomes available.
TEST(ZeroSized, IsNeverGatheredAloneFromV0_10_0) {
  const Config empty = {.model = model().layer("A", {{0, 8}}).layers("B")};
  EXPECT_EQ(history("f:AB", empty), "ok | 0.10.0 NOTAVAIL(A NOT_AVAILABLE)");
  EXPECT_EQ(outcome("0.19.8", "f:A", {.model = model().layer("A", {{0, 8}, {8, 8}})}), "ok");
}

}  // namespace
}  // namespace zero3
