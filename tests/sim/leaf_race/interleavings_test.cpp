// Threads in one leaf module's backward hook: every order of their steps, and how it ends.
//
// That the ends and texts are DeepSpeed's, scripts/checks/leaf-races holds against real releases.
#include "sim/leaf_race/interleavings.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero3::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kEnough = 1'000'000;

Interleavings explored(const RaceSetup& setup) {
  const auto all = explore(FetchThreads(setup), kEnough);
  EXPECT_TRUE(all.has_value());
  return all.value_or(Interleavings{});
}

std::vector<std::string> names(const Interleavings& all) {
  std::vector<std::string> names;
  for (const RaceOutcome& outcome : all.outcomes) names.push_back(outcome.end.name());
  return names;
}

std::vector<std::string> failures(const Interleavings& all) {
  std::vector<std::string> names;
  for (const RaceOutcome& outcome : all.outcomes) {
    if (outcome.end.failure) names.push_back(outcome.end.name());
  }
  return names;
}

// Every setup that is small enough to explore in no time.
std::vector<RaceSetup> small_setups(bool fetch_lock) {
  std::vector<RaceSetup> setups;
  for (const int params : {0, 1, 2, 3}) {
    for (const bool skips_gather : {false, true}) {
      for (const bool prefetched : {false, true}) {
        setups.push_back({.params = params,
                          .threads = 2,
                          .fetch_lock = fetch_lock,
                          .skips_gather = skips_gather,
                          .prefetched = prefetched});
      }
    }
  }
  return setups;
}

TEST(Interleavings, AllEightFailuresAreFound) {
  EXPECT_THAT(failures(explored({.params = 2})),
              ElementsAre("gather-not-partitioned", "handle-not-inflight", "register-not-inflight",
                          "already-in-registry", "non-inflight-in-registry", "popped-meanwhile",
                          "waited-not-inflight", "not-available"));
}

// A handle of one param waits without a check of its status.
TEST(Interleavings, ASingleParamIsWaitedForTwiceWithoutAnException) {
  const Interleavings all = explored({.params = 1});
  EXPECT_THAT(failures(all), Not(Contains("waited-not-inflight")));
  EXPECT_THAT(failures(all), SizeIs(7));
  EXPECT_THAT(names(all), Contains("gathered-twice"));
}

TEST(Interleavings, PrefetchedParamsAreOnlyWaitedFor) {
  EXPECT_THAT(names(explored({.params = 2, .prefetched = true})),
              ElementsAre("popped-meanwhile", "waited-not-inflight", "not-available", "completes"));
}

TEST(Interleavings, OneThreadAloneAlwaysCompletes) {
  for (RaceSetup setup : small_setups(false)) {
    setup.threads = 1;
    const Interleavings all = explored(setup);
    EXPECT_THAT(names(all), ElementsAre("completes"));
    EXPECT_EQ(all.total, Count(1));
  }
}

TEST(Interleavings, NoneFailsWhereOneThreadFetches) {
  for (RaceSetup setup : small_setups(true)) {
    for (const int threads : {2, 3}) {
      setup.threads = threads;
      const Interleavings all = explored(setup);
      EXPECT_THAT(names(all), ElementsAre("completes", "step-uncounted"));
      for (const RaceOutcome& outcome : all.outcomes) EXPECT_FALSE(outcome.end.harmful());
    }
  }
}

// More params or threads never make a failure impossible.
TEST(Interleavings, FailuresOnlyGrow) {
  std::vector<std::string> before;
  for (const int params : {1, 2, 3, 4}) {
    const std::vector<std::string> now = failures(explored({.params = params}));
    EXPECT_THAT(before, IsSubsetOf(now)) << params;
    if (params > 2) {
      EXPECT_EQ(before, now) << params;
    }
    before = now;
  }
  EXPECT_THAT(failures(explored({.params = 1, .threads = 2})),
              IsSubsetOf(failures(explored({.params = 1, .threads = 3}))));
}

// The same by plain enumeration: one path after the other, no state kept.
struct Enumerated {
  std::map<std::string, uint64_t> ends;
  std::map<std::string, size_t> shortest;
};

void enumerate(const FetchThreads& threads, const RaceState& from, const RaceStep& last, size_t steps,
               Enumerated& out) {
  bool moved = false;
  for (int i = 0; !last.failure && i < threads.setup().threads; ++i) {
    if (!threads.runnable(from, i)) continue;
    moved = true;
    RaceState state = from;
    const RaceStep step = threads.step(state, i);
    enumerate(threads, state, step, steps + 1, out);
  }
  if (moved) return;
  const std::string name = end_of(threads, from, last).name();
  ++out.ends[name];
  const auto [place, is_new] = out.shortest.try_emplace(name, steps);
  if (!is_new) place->second = std::min(place->second, steps);
}

void expect_as_enumerated(const RaceSetup& setup) {
  const FetchThreads threads(setup);
  Enumerated enumerated;
  enumerate(threads, threads.start(), RaceStep{}, 0, enumerated);
  const Interleavings all = explored(setup);
  ASSERT_THAT(all.outcomes, SizeIs(enumerated.ends.size()));
  for (const RaceOutcome& outcome : all.outcomes) {
    const std::string name = outcome.end.name();
    EXPECT_EQ(outcome.interleavings.text(), std::to_string(enumerated.ends[name])) << name;
    EXPECT_EQ(outcome.shortest.size(), enumerated.shortest[name]) << name;
  }
}

TEST(Interleavings, CountsAreThoseOfPlainEnumeration) {
  expect_as_enumerated({.params = 1, .prefetched = true});
  expect_as_enumerated({.params = 1, .fetch_lock = true});
  expect_as_enumerated({.params = 2, .fetch_lock = true});
  expect_as_enumerated({.params = 1, .threads = 3, .fetch_lock = true, .prefetched = true});
}

// The enumeration above, pinned: two threads that meet one param in flight.
TEST(Interleavings, CountsOfOneParamInFlight) {
  const Interleavings all = explored({.params = 1, .prefetched = true});
  EXPECT_EQ(all.total.text(), "1732");
  EXPECT_EQ(all.find({.failure = RaceFailure::kPoppedMeanwhile})->interleavings.text(), "840");
}

TEST(Interleavings, AShortestOneLeadsToItsEnd) {
  for (const RaceSetup& setup : small_setups(false)) {
    const FetchThreads threads(setup);
    for (const RaceOutcome& outcome : explored(setup).outcomes) {
      const RaceStory story = tell(threads, outcome.shortest);
      ASSERT_TRUE(story.end.has_value());
      EXPECT_EQ(*story.end, outcome.end);
      EXPECT_EQ(story.steps.size(), outcome.shortest.size());
    }
  }
}

TEST(Interleavings, TooManyStatesAreNoAnswer) {
  EXPECT_FALSE(explore(FetchThreads({.params = 3}), 1000).has_value());
}

TEST(Interleavings, AnOrderThatCannotBeIsToldUpToThere) {
  const FetchThreads threads({.params = 1, .fetch_lock = true});
  const RaceStory waiting = tell(threads, {0, 1, 1});
  EXPECT_EQ(waiting.taken, 2U);
  EXPECT_FALSE(waiting.end.has_value());
  EXPECT_EQ(tell(threads, {2}).taken, 0U);
}

TEST(RaceNames, EveryFailureHasOne) {
  std::set<std::string> all;
  for (int i = 0; i <= static_cast<int>(RaceFailure::kNotAvailable); ++i)
    all.insert(std::string(name(static_cast<RaceFailure>(i))));
  EXPECT_THAT(all, AllOf(SizeIs(8), Not(Contains(""))));
  std::set<std::string> actions;
  for (int i = 0; i <= static_cast<int>(RaceAction::kDone); ++i)
    actions.insert(std::string(name(static_cast<RaceAction>(i))));
  EXPECT_THAT(actions, AllOf(SizeIs(24), Not(Contains(""))));
}

TEST(RaceNames, OfWhatIsLeftBehind) {
  EXPECT_EQ((RaceEnd{.stuck = true, .left_registered = true, .left_in_flight = true}).name(),
            "stuck+left-registered+left-in-flight");
  EXPECT_FALSE((RaceEnd{.uncounted = true}).harmful());
  EXPECT_TRUE((RaceEnd{.gathered_twice = true}).harmful());
}

TEST(Counts, AddBeyondSixtyFourBits) {
  Count count(1);
  for (int i = 0; i < 100; ++i) count += count;
  EXPECT_EQ(count.text(), "1267650600228229401496703205376");  // 2^100
  EXPECT_EQ(count.short_text(), "1.26e+30");
  EXPECT_EQ(Count().text(), "0");
  EXPECT_EQ(Count(999'999'999'999).short_text(), "999999999999");
  Count twice = count;
  twice += count;
  EXPECT_DOUBLE_EQ(count.share_of(twice), 0.5);
  EXPECT_NEAR(Count(1).share_of(count), 7.888609052210118e-31, 1e-40);
  Count carried(999'999'999);
  carried += Count(1);
  EXPECT_EQ(carried.text(), "1000000000");
}

}  // namespace
}  // namespace zero3::sim
