// Gather handles, GatheredParameters' gather, and partition: partition_parameters.py.
#include "coordinator/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::FakeCommunicator;
using test::model;
using test::names_of;
using test::RecordingObserver;
using test::release;
using testing::ElementsAre;
using testing::IsEmpty;
using enum ZeroParamStatus;

// Params A, B and C of a process, partitioned.
struct Partitions {
  explicit Partitions(std::string_view of_release, int world_size = 2)
      : communicator(0, world_size), runtime{behaviour_of(release(of_release)), {}, communicator, &observer} {
    params = parameters_of(built.module(0));
    process.convert(params);
  }
  Param& operator[](size_t index) { return *params[index]; }
  std::span<Param* const> all() const { return params; }

  FakeCommunicator communicator;
  RecordingObserver observer;
  Runtime runtime;
  Process process;
  Model built{model().layers("ABC").spec()};
  std::vector<Param*> params;
  Partitioner partitioner{runtime};
};

TEST(Launch, SortsTheCollectiveByIdAndSetsInflight) {
  Partitions p("0.15.2");
  const std::vector<Param*> unsorted = {&p[2], &p[0]};
  AllGatherHandle* handle = nullptr;
  EXPECT_EQ(p.partitioner.launch(unsorted, Reason::kNeeded, nullptr, handle), nullptr);
  EXPECT_EQ(names_of(handle->params), "AC");
  EXPECT_EQ(p[0].ds_status, kInflight);
  EXPECT_EQ(p[1].ds_status, kNotAvailable);
  EXPECT_EQ(p[2].ds_status, kInflight);
  EXPECT_THAT(p.communicator.log, ElementsAre("all_gather AC"));
}

// A coalesced handle flips all its params at the first wait (eras.md, 5.4): what makes an in-flight param AVAILABLE.
TEST(Wait, FirstWaitFlipsEveryParamOfTheHandle) {
  Partitions p("0.15.2");
  AllGatherHandle* handle = nullptr;
  ASSERT_EQ(p.partitioner.launch(p.all(), Reason::kNeeded, nullptr, handle), nullptr);
  ASSERT_EQ(p.partitioner.wait(*handle), nullptr);
  for (const Param* param : p.all()) EXPECT_EQ(param->ds_status, kAvailable);
  ASSERT_EQ(p.partitioner.wait(*handle), nullptr);
  EXPECT_THAT(p.communicator.log, ElementsAre("all_gather ABC", "wait"));
}

// DeepSpeed#8486, run on v0.18.9, v0.19.6 and v0.19.7: with stage3_allgather_sequential a handle holds one for each
// param, and until v0.19.7 a second wait makes AVAILABLE what was partitioned after the first.
TEST(Wait, SecondWaitOfSequentialGathersRevivesThePartitioned) {
  for (const auto& [of_release, status] :
       {std::pair("0.19.6", kAvailable), std::pair("0.19.7", kNotAvailable)}) {
    Partitions p(of_release);
    p.runtime.settings.allgather_sequential = true;
    AllGatherHandle* handle = nullptr;
    ASSERT_EQ(p.partitioner.launch(p.all().first(2), Reason::kPrefetched, nullptr, handle), nullptr);
    EXPECT_TRUE(p[0].data_is_full);
    ASSERT_EQ(p.partitioner.wait(*handle), nullptr);
    EXPECT_EQ(p[1].ds_status, kAvailable);
    ASSERT_EQ(p.partitioner.partition(p.all().first(1), Reason::kNotReused), nullptr);
    ASSERT_EQ(p.partitioner.wait(*handle), nullptr);
    EXPECT_EQ(p[0].ds_status, status) << of_release;
    EXPECT_FALSE(p[0].data_is_full) << of_release;
    EXPECT_THAT(p.communicator.log, ElementsAre("all_gather A", "all_gather B", "wait", "wait"));
  }
}

// all_gather_coalesced: `RuntimeError: {ds_summary}`; with one rank, from v0.10.2, with a prefix (eras.md, 4.2).
TEST(Launch, ParamThatIsThereAlreadyIsRefused) {
  const auto refusal = [](std::string_view of_release, int world_size) {
    Partitions p(of_release, world_size);
    p[1].ds_status = kAvailable;
    AllGatherHandle* handle = nullptr;
    const Raised raised = p.partitioner.launch(p.all(), Reason::kNeeded, nullptr, handle);
    EXPECT_NE(raised, nullptr);
    EXPECT_EQ(raised->kind, FailureKind::kAlreadyGathering);
    EXPECT_EQ(raised->exception, "RuntimeError");
    return raised->text.substr(0, raised->text.find('{'));
  };
  EXPECT_EQ(refusal("0.6.0", 1), "");
  EXPECT_EQ(refusal("0.15.2", 2), "");
  EXPECT_EQ(refusal("0.10.0", 1), "");
  EXPECT_EQ(refusal("0.10.2", 1), "expect param.ds_status == ZeroParamStatus.NOT_AVAILABLE, got");
}

// `expected param {ds_summary} to be inflight`: only coalesced handles look (eras.md, 4.2).
TEST(Wait, CoalescedHandleWantsItsParamsInflight) {
  Partitions p("0.15.2");
  AllGatherHandle* handle = nullptr;
  ASSERT_EQ(p.partitioner.launch(p.all(), Reason::kNeeded, nullptr, handle), nullptr);
  p[1].ds_status = kAvailable;
  const Raised raised = p.partitioner.wait(*handle);
  ASSERT_NE(raised, nullptr);
  EXPECT_EQ(raised->kind, FailureKind::kNotInflight);
  EXPECT_TRUE(raised->text.starts_with("expected param {'id': 1, 'status': 'AVAILABLE'"));
  EXPECT_TRUE(raised->text.ends_with("} to be inflight"));
}

// #2953 (v0.9.0): one rank copies instead of gathering; statuses pass through INFLIGHT all the same.
TEST(Launch, OneRankGathersNothingFrom_0_9_0) {
  for (const auto& [of_release, collectives] : {std::pair("0.8.3", 1U), std::pair("0.9.0", 0U)}) {
    Partitions p(of_release, 1);
    AllGatherHandle* handle = nullptr;
    ASSERT_EQ(p.partitioner.launch(p.all(), Reason::kNeeded, nullptr, handle), nullptr);
    EXPECT_EQ(p[0].ds_status, kInflight);
    EXPECT_EQ(p.communicator.log.size(), collectives) << of_release;
  }
}

// Reading a ds_summary (reports.md, 1.3): a lone gather and one rank hold the full buffer at once, a group does not.
TEST(Launch, WhoHasTheFullBufferAtOnce) {
  const auto full = [](int world_size, size_t count) {
    Partitions p("0.15.2", world_size);
    AllGatherHandle* handle = nullptr;
    EXPECT_EQ(p.partitioner.launch(p.all().first(count), Reason::kNeeded, nullptr, handle), nullptr);
    return p[0].data_is_full;
  };
  EXPECT_TRUE(full(2, 1));
  EXPECT_FALSE(full(2, 2));
  EXPECT_TRUE(full(1, 2));
}

// v1's prefetch: one collective a param, in trace order (eras.md, 5.9.5).
TEST(LaunchSingly, OneCollectiveAParamInTheOrderGiven) {
  Partitions p("0.5.10");
  std::vector<AllGatherHandle*> handles;
  const std::vector<Param*> order = {&p[2], &p[0]};
  ASSERT_EQ(p.partitioner.launch_singly(order, Reason::kPrefetched, nullptr, handles), nullptr);
  EXPECT_THAT(p.communicator.log, ElementsAre("all_gather C", "all_gather A"));
  EXPECT_EQ(handles.size(), 2U);
}

// GatheredParameters' entry: in-flight params are neither gathered nor waited for (eras.md, 5.7).
TEST(AllGather, PassesOverWhatIsInflight) {
  Partitions p("0.15.2");
  p[1].ds_status = kInflight;
  ASSERT_EQ(p.partitioner.all_gather(p.all(), Reason::kGatherContext), nullptr);
  EXPECT_EQ(p[0].ds_status, kAvailable);
  EXPECT_EQ(p[1].ds_status, kInflight);
  EXPECT_THAT(p.communicator.log, ElementsAre("all_gather AC", "wait"));
}

TEST(AllGather, NothingMissingIsNoCollective) {
  Partitions p("0.15.2");
  for (Param* param : p.all()) param->ds_status = kAvailable;
  ASSERT_EQ(p.partitioner.all_gather(p.all(), Reason::kGatherContext), nullptr);
  EXPECT_THAT(p.communicator.log, IsEmpty());
}

// CP: the leading space and the word are exact (eras.md, 4.2; #1420 mended the spelling in v0.5.4).
TEST(Partition, InflightParamIsRefused) {
  const auto text = [](std::string_view of_release) {
    Partitions p(of_release);
    p[0].ds_status = kInflight;
    const Raised raised = p.partitioner.partition(p.all(), Reason::kContextExit);
    EXPECT_EQ(raised->kind, FailureKind::kPartitionInFlight);
    EXPECT_THAT(raised->path, ElementsAre("partition", "_partition", "_partition_param"));
    return raised->message();
  };
  constexpr const char* kParam =
      "AssertionError:  Parameter containing:\ntensor([], requires_grad=True) Cannot ";
  for (const char* old : {"0.3.12", "0.4.4", "0.5.3"})
    EXPECT_EQ(text(old), std::string(kParam) + "parititon a param in flight") << old;
  for (const char* now : {"0.5.4", "0.5.10", "0.15.2", "0.19.8"})
    EXPECT_EQ(text(now), std::string(kParam) + "partition a param in flight") << now;
}

// FREE: unchecked in v1, an assert with the bare dict from #1453, prose from #7817 (v0.18.5).
TEST(Partition, ActiveParamIsRefused) {
  const auto message = [](std::string_view of_release) {
    Partitions p(of_release);
    p[0].ds_status = kAvailable;
    p[0].ds_active_sub_modules.add(372);
    const Raised raised = p.partitioner.partition(p.all().first(1), Reason::kContextExit);
    return raised ? raised->message() : "";
  };
  EXPECT_EQ(message("0.5.10"), "");
  for (const char* asserts : {"0.6.0", "0.15.2", "0.18.4"}) {
    EXPECT_TRUE(message(asserts).starts_with("AssertionError: {'id': 0, 'status': 'AVAILABLE'")) << asserts;
    EXPECT_NE(message(asserts).find("'active_sub_modules': {372}"), std::string::npos) << asserts;
  }
  for (const char* prose : {"0.18.5", "0.19.8"}) {
    EXPECT_TRUE(message(prose).starts_with(
        "RuntimeError: Cannot free a ZeRO-3 parameter while it is still active in submodules. This can "
        "happen if: (1) "
        "submodules have not released the parameter, or (2) you modified parameters inside a "
        "`GatheredParameters` "
        "context with `modifier_rank=None`. For case (2), use `modifier_rank=<rank>` to broadcast updates "
        "consistently across ranks. param={'id': 0, 'status': 'AVAILABLE'"))
        << message(prose);
  }
}

TEST(Partition, OnlyWhatWasAvailableIsReleased) {
  Partitions p("0.15.2");
  p[1].ds_status = kAvailable;
  ASSERT_EQ(p.partitioner.partition(p.all(), Reason::kContextExit), nullptr);
  EXPECT_EQ(p.observer.log(), "REL B");
  EXPECT_EQ(p[1].ds_status, kNotAvailable);
}

// A collective that a rank never joins is handed up as it is.
TEST(Partitioner, HangIsPassedUp) {
  Partitions p("0.15.2");
  p.communicator.hang_in("all_gather ABC");
  AllGatherHandle* handle = nullptr;
  const Raised launched = p.partitioner.launch(p.all(), Reason::kNeeded, nullptr, handle);
  ASSERT_NE(launched, nullptr);
  EXPECT_EQ(launched->kind, FailureKind::kHang);
  EXPECT_EQ(launched->text, "rank 1 never joins all_gather ABC");

  Partitions q("0.15.2");
  q.communicator.hang_in("wait");
  const Raised gathered = q.partitioner.all_gather(q.all(), Reason::kGatherContext);
  ASSERT_NE(gathered, nullptr);
  EXPECT_EQ(gathered->kind, FailureKind::kHang);
  EXPECT_EQ(q[0].ds_status, kNotAvailable);
}

}  // namespace
}  // namespace zero3
