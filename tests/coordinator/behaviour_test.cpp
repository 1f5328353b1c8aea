// The table of flags. What each flag does to a run is in the tests of the part that asks it; here: the rows and the
// eras.
#include "coordinator/behaviour.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::release;

TEST(Behaviour, EveryRowNamesAKnownReleaseAndItsSource) {
  for (const Change& change : changes_until(known_releases().back())) {
    EXPECT_TRUE(is_known(change.since)) << change.flag;
    EXPECT_FALSE(change.source.empty()) << change.flag;
    EXPECT_FALSE(change.value.empty()) << change.flag;
  }
}

TEST(Behaviour, RowsAreOldestFirst) {
  Release last{};
  for (const Change& change : changes_until(known_releases().back())) {
    EXPECT_GE(change.since, last) << change.flag;
    last = change.since;
  }
}

// A row that repeats the value it finds says nothing.
TEST(Behaviour, EveryRowChangesTheFlagsValue) {
  std::map<std::string, std::string> values;
  for (const Change& change : changes_until(known_releases().back())) {
    std::string& value = values[std::string(change.flag)];
    EXPECT_NE(value, change.value) << change.flag << " at " << change.since.text();
    value = change.value;
  }
}

TEST(Behaviour, ChangesStopAtTheRelease) {
  for (const Change& change : changes_until(Release{0, 6, 0})) EXPECT_LE(change.since, (Release{0, 6, 0}));
}

TEST(Behaviour, FirstReleaseGivesEachFlagOneValue) {
  const std::vector<Change> rows = changes_until(known_releases().front());
  std::set<std::string_view> flags;
  for (const Change& change : rows) flags.insert(change.flag);
  EXPECT_EQ(flags.size(), rows.size());
}

// eras.md, 1: the first and the last tag of each era.
TEST(Behaviour, ErasAreThoseOfTheTable) {
  const std::map<std::string, std::pair<std::string, std::string>> eras = {
      {"A1", {"0.3.12", "0.3.13"}}, {"A2", {"0.3.14", "0.4.3"}},          {"A3", {"0.4.4", "0.5.3"}},
      {"A4", {"0.5.4", "0.5.10"}},  {"B0", {"0.5.11-dev", "0.5.11-dev"}}, {"B1", {"0.6.0", "0.6.1"}},
      {"B2", {"0.6.2", "0.6.3"}},   {"B3", {"0.6.4", "0.6.5"}},           {"B4", {"0.6.6", "0.8.3"}},
      {"B5", {"0.9.0", "0.9.2"}},   {"B6", {"0.9.3", "0.9.5"}},           {"B7", {"0.10.0", "0.15.2"}},
      {"C1", {"0.15.3", "0.15.3"}}, {"C2", {"0.15.4", "0.15.4"}},         {"C3", {"0.16.0", "0.16.7"}},
      {"C4", {"0.16.8", "0.18.4"}}, {"C5", {"0.18.5", "0.19.1"}},         {"C6", {"0.19.2", "0.19.2"}},
      {"C7", {"0.19.3", "0.19.3"}}, {"C8", {"0.19.4", "0.19.5"}},         {"C9", {"0.19.6", "0.19.8"}},
  };
  std::set<std::string> seen;
  for (const Release& one : known_releases()) {
    const std::string era(era_of(one));
    seen.insert(era);
    ASSERT_TRUE(eras.contains(era)) << era;
    EXPECT_GE(one, release(eras.at(era).first)) << one.text() << " is not " << era;
    EXPECT_LE(one, release(eras.at(era).second)) << one.text() << " is not " << era;
  }
  EXPECT_EQ(seen.size(), eras.size());
}

// eras.md, 2, read downwards for the two eras that users meet most.
TEST(Behaviour, EraB7IsAsTabled) {
  const Behaviour b = behaviour_of(release("0.15.2"));
  EXPECT_EQ(b.coordinator, Coordinator::kPartitionedParameter);
  EXPECT_TRUE(b.coordinator_per_mode);
  EXPECT_EQ(b.registry_home, RegistryHome::kModulePerMode);
  EXPECT_TRUE(b.backward_end_reset);
  EXPECT_TRUE(b.no_grad_forward_hook_reset);
  EXPECT_EQ(b.forward_start_reset, ForwardStartReset::kNone);
  EXPECT_EQ(b.reset_on_inflight, OnInflight::kRaise);
  EXPECT_EQ(b.initial_mode, InitialMode::kRecord);
  EXPECT_TRUE(b.mismatch_invalidates);
  EXPECT_FALSE(b.invalidation_cleans_inflight);
  EXPECT_EQ(b.trace_overrun, TraceOverrun::kInvalidate);
  EXPECT_EQ(b.param_trace, ParamTrace::kAtReset);
  EXPECT_FALSE(b.prefetch_takes_available);
  EXPECT_TRUE(b.retains_skipped_use);
  EXPECT_TRUE(b.reuse_loop_stops_at_distance);
  EXPECT_TRUE(b.backward_needs_train_mode);
  EXPECT_EQ(b.partition_all_on_inflight, OnInflight::kRaise);
  EXPECT_TRUE(b.save_16bit_prologue);
  EXPECT_TRUE(b.gathered_none_partitions);
  EXPECT_TRUE(b.gathered_sorts);
  EXPECT_EQ(b.free_active, FreeActive::kAssert);
  EXPECT_EQ(b.inflight_form, SummaryForm::kDicts);
}

TEST(Behaviour, EraC9IsAsTabled) {
  const Behaviour b = behaviour_of(release("0.19.8"));
  EXPECT_FALSE(b.coordinator_per_mode);
  EXPECT_EQ(b.registry_home, RegistryHome::kModule);
  EXPECT_EQ(b.forward_start_reset, ForwardStartReset::kBeforeRootPreHook);
  EXPECT_FALSE(b.backward_end_reset);
  EXPECT_EQ(b.reset_on_inflight, OnInflight::kClean);
  EXPECT_EQ(b.initial_mode, InitialMode::kInvalid);
  EXPECT_TRUE(b.invalidation_cleans_inflight);
  EXPECT_TRUE(b.invalidation_clears_step_deque);
  EXPECT_FALSE(b.backward_needs_train_mode);
  EXPECT_EQ(b.partition_all_on_inflight, OnInflight::kWaitAndRelease);
  EXPECT_EQ(b.free_active, FreeActive::kRuntimeError);
  EXPECT_FALSE(b.grads_remaining_initialised_once);
  EXPECT_EQ(b.n_available_zeroed, Availability::kAtReset);
  EXPECT_TRUE(b.active_backward_stack);
  EXPECT_TRUE(b.leaf_fetch_lock);
  EXPECT_TRUE(b.hook_registration_invalidates);
  EXPECT_TRUE(b.nested_gather_check);
  EXPECT_TRUE(b.rank_check_lengths);
}

// eras.md, point 1: no tag shipped the new coordinator without the save prologue; only the untagged master did.
TEST(Behaviour, OnlyUntaggedMasterSavesWithoutItsPrologue) {
  for (const Release& one : known_releases()) {
    const Behaviour b = behaviour_of(one);
    const bool v2_without = b.coordinator == Coordinator::kPartitionedParameter && !b.save_16bit_prologue;
    EXPECT_EQ(v2_without, one.text() == "0.5.11-dev") << one.text();
  }
}

// v0.16.0-v0.16.7 (#6726) are an island: v0.16.8 (#7258) is as v0.15.4 was.
TEST(Behaviour, RollbackOfStickyCountersIsComplete) {
  const Behaviour before = behaviour_of(release("0.15.4"));
  const Behaviour after = behaviour_of(release("0.16.8"));
  EXPECT_EQ(before.grads_remaining_initialised_once, after.grads_remaining_initialised_once);
  EXPECT_EQ(before.n_available_zeroed, after.n_available_zeroed);
  EXPECT_TRUE(behaviour_of(release("0.16.7")).grads_remaining_initialised_once);
}

}  // namespace
}  // namespace zero3
