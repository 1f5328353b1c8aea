#include "coordinator/trace.h"

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

// A trace over root, A and B on one rank of a release.
struct Traced {
  explicit Traced(std::string_view of_release, int rank = 0)
      : communicator(rank, 2), runtime{behaviour_of(release(of_release)), {}, communicator, nullptr} {
    process.convert(parameters_of(built.module(0)));
    for (int i = 0; i < 3; ++i) built.module(i).ds_id = i;
  }
  void record(std::initializer_list<int> modules) {
    int64_t step = 0;
    for (const int index : modules) {
      trace.record_module(built.module(index), step);
      if (runtime.behaviour.param_trace != ParamTrace::kAtReset)
        trace.record_params(built.module(index), step);
      ++step;
    }
  }
  // Records root, A, B and makes that the complete trace.
  void complete() {
    if (trace.mode() == TraceMode::kInvalid) {
      EXPECT_EQ(trace.finalise(), nullptr);
      trace.restart_queue();
    }
    record({0, 1, 2});
    EXPECT_EQ(trace.finalise(), nullptr);
    trace.restart_queue();
    communicator.clear();
  }
  // "" if `module` at `step` is as recorded, else the line printed or the error.
  std::string check(int module, int64_t step) {
    bool diverged = false;
    std::string message;
    if (const Raised raised = trace.check(built.module(module), step, diverged, message))
      return raised->message();
    EXPECT_EQ(diverged, !message.empty());
    return message;
  }

  FakeCommunicator communicator;
  Runtime runtime;
  Process process;
  Model built{model().layers("AB").spec()};
  Trace trace{runtime};
};

// eras.md, 2, initial_mode: RECORD until v0.15.3, INVALID since #6662.
TEST(Trace, StartsRecordingOrInvalid) {
  for (const char* records : {"0.6.0", "0.6.2", "0.15.3"})
    EXPECT_EQ(Traced(records).trace.mode(), TraceMode::kRecord) << records;
  for (const char* waits : {"0.15.4", "0.19.8"})
    EXPECT_EQ(Traced(waits).trace.mode(), TraceMode::kInvalid) << waits;
}

// eras.md, 5.8: INVALID -> RECORD -> COMPLETE, one reset each, and COMPLETE stays.
TEST(Trace, ResetsMoveTheModeOn) {
  Traced t("0.19.8");
  EXPECT_EQ(t.trace.finalise(), nullptr);
  EXPECT_EQ(t.trace.mode(), TraceMode::kRecord);
  t.trace.restart_queue();
  t.record({0, 1});
  EXPECT_EQ(t.trace.finalise(), nullptr);
  EXPECT_EQ(t.trace.mode(), TraceMode::kComplete);
  t.trace.restart_queue();
  EXPECT_EQ(t.trace.finalise(), nullptr);
  EXPECT_EQ(t.trace.mode(), TraceMode::kComplete);
}

TEST(Trace, QueueHoldsParamsWithTheStepsTheyAreUsedAt) {
  Traced t("0.19.8");
  t.complete();
  const ParamInTrace first = t.trace.pop_queue();
  EXPECT_EQ(first.param->ds_id, 0);
  EXPECT_EQ(first.step_id_last_used_at, 1);
  const ParamInTrace second = t.trace.pop_queue();
  EXPECT_EQ(second.param->ds_id, 1);
  EXPECT_EQ(second.step_id_last_used_at, 2);
  EXPECT_TRUE(t.trace.queue_empty());
  t.trace.restart_queue();
  EXPECT_FALSE(t.trace.queue_empty());
}

TEST(Trace, InvalidationEmptiesTraceAndQueue) {
  Traced t("0.15.2");
  t.complete();
  t.trace.invalidate();
  EXPECT_EQ(t.trace.mode(), TraceMode::kInvalid);
  EXPECT_THAT(t.trace.submodule_order(), IsEmpty());
  EXPECT_TRUE(t.trace.queue_empty());
  EXPECT_EQ(t.check(2, 0), "");  // nothing is compared with
}

// The texts of eras.md, 4.1, "log lines".
TEST(TraceCheck, OtherModuleIsNamedWithTheExpectedOne) {
  Traced t("0.15.2");
  t.complete();
  EXPECT_EQ(t.check(1, 1), "");
  EXPECT_EQ(t.check(2, 1), "Invalidate trace cache @ step 1: expected module 1, but got module 2");
}

// Past the end: the text since #3186 (v0.9.0), an IndexError in v0.6.2-v0.8.3, nothing looks in v0.6.0-v0.6.1.
TEST(TraceCheck, PastTheEndOfTheTrace) {
  for (const char* invalidates : {"0.9.0", "0.15.2", "0.19.8"}) {
    Traced t(invalidates);
    t.complete();
    EXPECT_EQ(t.check(1, 3), "Invalidate trace cache @ step 3 and module 1: cache has only 3 modules")
        << invalidates;
  }
  for (const char* raises : {"0.6.2", "0.7.7", "0.8.3"}) {
    Traced t(raises);
    t.complete();
    EXPECT_EQ(t.check(1, 3), "IndexError: tuple index out of range") << raises;
  }
  Traced t("0.6.0");
  t.complete();
  EXPECT_EQ(t.check(1, 3), "");
  EXPECT_EQ(t.check(2, 1), "");
}

// eras.md, 2, cross_rank_check: three lists at every incomplete reset until v0.7.5, then one, and two more when a trace
// is finalised; each preceded by its length from v0.17.6.
TEST(TraceRanks, BroadcastsAreThoseOfTheRelease) {
  const auto broadcasts = [](std::string_view of_release) {
    Traced t(of_release);
    if (t.trace.mode() == TraceMode::kInvalid) (void)t.trace.finalise();
    t.communicator.clear();
    t.record({0, 1, 2});
    EXPECT_EQ(t.trace.finalise(), nullptr);
    return t.communicator.log;
  };
  const auto modules = "broadcast_ints [0, 1, 2]";
  const auto ids = "broadcast_ints [0, 1]";
  const auto steps = "broadcast_ints [1, 2]";
  // before #2550 the lists of a trace built at reset are still empty when they are compared
  EXPECT_THAT(broadcasts("0.6.0"), ElementsAre(modules, ids, steps));
  EXPECT_THAT(broadcasts("0.7.5"), ElementsAre(modules, "broadcast_ints []", "broadcast_ints []"));
  EXPECT_THAT(broadcasts("0.7.6"), ElementsAre(modules, ids, steps));
  EXPECT_THAT(broadcasts("0.17.5"), ElementsAre(modules, ids, steps));
  EXPECT_THAT(broadcasts("0.17.6"), ElementsAre("broadcast_ints [3]", modules, "broadcast_ints [2]", ids,
                                                "broadcast_ints [2]", steps));
}

TEST(TraceRanks, InvalidTraceIsCheckedForItsEmptyListOnly) {
  Traced t("0.7.6");
  t.complete();
  t.trace.invalidate();
  EXPECT_EQ(t.trace.finalise(), nullptr);
  EXPECT_THAT(t.communicator.log, ElementsAre("broadcast_ints []"));
}

TEST(TraceRanks, CompleteTraceIsNotChecked) {
  Traced t("0.19.8");
  t.complete();
  EXPECT_EQ(t.trace.finalise(), nullptr);
  EXPECT_THAT(t.communicator.log, IsEmpty());
}

// zero/utils.py, assert_ints_same_as_other_ranks, v0.6.0-v0.17.5 (eras.md, 4.1).
TEST(TraceRanks, DisagreementBefore_0_17_6) {
  Traced t("0.15.2", 1);
  t.record({0, 2});
  t.communicator.rank0_answers = {{0, 1}};
  const Raised raised = t.trace.finalise();
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->kind, FailureKind::kDisagreement);
  EXPECT_EQ(raised->message(),
            "RuntimeError: disagreement between rank0 and rank1: rank0: [0, 1], rank1: [0, 2]");
}

// #7525 (v0.17.6): lengths first, then contents.
TEST(TraceRanks, DisagreementFrom_0_17_6) {
  const auto disagreement = [](std::deque<std::vector<int64_t>> answers) {
    Traced t("0.17.6", 1);
    EXPECT_EQ(t.trace.finalise(), nullptr);
    t.record({0, 2});
    t.communicator.rank0_answers = std::move(answers);
    const Raised raised = t.trace.finalise();
    return raised ? raised->message() : "";
  };
  EXPECT_EQ(disagreement({{3}}),
            "RuntimeError: Detected a disagreement on list length between rank0 and rank1: \n rank0: 3 \n "
            "rank1: 2");
  EXPECT_EQ(
      disagreement({{2}, {0, 1}}),
      "RuntimeError: Detected a disagreement on list contents between rank0 and rank1: \n list length: 2\n "
      "rank0: [0, 1] \n rank1: [0, 2]");
}

TEST(TraceRanks, HangInTheCheckIsPassedUp) {
  Traced t("0.15.2", 1);
  t.record({0});
  t.communicator.hang_in("broadcast_ints [0]");
  const Raised raised = t.trace.finalise();
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->kind, FailureKind::kHang);
  EXPECT_TRUE(t.trace.recording());
}

// eras.md, 3.39: ids changed between recording and reset. From v0.19.2 an invalidation clears the steps, too.
TEST(Trace, ModuleIdsThatChangedHaveNoRecordedStep) {
  Traced t("0.15.4");
  ASSERT_EQ(t.trace.finalise(), nullptr);
  t.record({0, 1});
  t.built.module(1).ds_id = 7;
  const Raised raised = t.trace.finalise();
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->message(), "IndexError: pop from an empty deque");
  EXPECT_THAT(raised->path, ElementsAre("construct_parameter_trace_from_module_trace", "record_parameters"));
}

}  // namespace
}  // namespace zero3
