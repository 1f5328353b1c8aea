// A trace of real DeepSpeed agrees with the model of its release, and every kind of change to it is seen.
#include "sim/verify/comparison.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/scenario/yaml_reader.h"
#include "sim/verify/deciding_flag.h"
#include "sim/verify/error_text.h"
#include "sim/verify/verification.h"
#include "tests/sim/verify/real_traces.h"

namespace zero3::sim {
namespace {

using Outcome = Comparison::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Release kRelease = *Release::parse("0.15.2");

class RealTrace : public ::testing::Test {
 protected:
  // What comparison says of the real trace after a change to it.
  Comparison after(const std::function<void(RunTrace&)>& change) {
    RunTrace changed = real;
    change(changed);
    return compare(model.trace, changed);
  }

  // The difference that a change makes, as "rank 0, step 3: what"; "agrees", "inconclusive".
  std::string told(const std::function<void(RunTrace&)>& change) {
    const Comparison comparison = after(change);
    if (comparison.outcome == Outcome::kAgrees) return "agrees";
    if (comparison.outcome == Outcome::kInconclusive) return "inconclusive";
    const Difference& difference = *comparison.difference;
    return "rank " + std::to_string(difference.rank) + ", step " + std::to_string(difference.statement + 1) +
           ": " + difference.what;
  }

  static TraceEvent& first(RunTrace& run, int rank, const std::string& event) {
    for (TraceStatement& statement : run.by_rank[static_cast<size_t>(rank)].statements) {
      for (TraceEvent& one : statement.events) {
        if (one.event == event) return one;
      }
    }
    throw std::runtime_error("no " + event);
  }

  static TraceStatement& last(RunTrace& run, int rank) {
    return run.by_rank[static_cast<size_t>(rank)].statements.back();
  }

  const RunTrace real = read_traces(read_text_file(kRealTracePath), kRealTracePath).at(0);
  const ModelRun model = model_run(real_experiment(), kRealProgram, kRelease, 0);
};

TEST_F(RealTrace, AgreesWithTheModelOfItsRelease) {
  const Comparison comparison = compare(model.trace, real);
  EXPECT_EQ(comparison.outcome, Outcome::kAgrees);
  EXPECT_EQ(comparison.statements, 6U);
  size_t events = 0;
  for (const RankTrace& rank : real.by_rank) {
    for (const TraceStatement& statement : rank.statements) events += statement.events.size();
  }
  EXPECT_EQ(comparison.events, events);
}

TEST_F(RealTrace, DiffersInEachKeyOfAnEvent) {
  const auto changed = [this](const char* event, const std::function<void(TraceEvent&)>& change) {
    return told([&](RunTrace& run) { change(first(run, 1, event)); });
  };
  const std::string kEvent = "rank 1, step 1: event";
  EXPECT_EQ(changed("fetch", [](TraceEvent& event) { event.module = "B"; }), kEvent);
  EXPECT_EQ(changed("fetch", [](TraceEvent& event) { event.module_id = 7; }), kEvent);
  EXPECT_EQ(changed("fetch", [](TraceEvent& event) { event.step += 1; }), kEvent);
  EXPECT_EQ(changed("fetch", [](TraceEvent& event) { event.pass = "backward"; }), kEvent);
  EXPECT_EQ(changed("all-gather", [](TraceEvent& event) { event.params = {"B.weight"}; }), kEvent);
  EXPECT_EQ(changed("all-gather", [](TraceEvent& event) { event.ds_ids = {1}; }), kEvent);
  EXPECT_EQ(changed("wait", [](TraceEvent& event) { event.ds_ids = {1}; }), kEvent);
  EXPECT_EQ(changed("release", [](TraceEvent& event) { event.reason = "not-reused"; }), kEvent);
  EXPECT_EQ(changed("release", [](TraceEvent& event) { event.reason = ""; }), "agrees");
  EXPECT_EQ(changed("reset-done", [](TraceEvent& event) { event.text = "RECORD"; }), kEvent);
  EXPECT_EQ(changed("invalidate", [](TraceEvent& event) { event.trace_length += 1; }),
            "rank 1, step 3: event");
  EXPECT_EQ(changed("invalidate", [](TraceEvent& event) { event.expected_module_id = 1; }),
            "rank 1, step 3: event");
  EXPECT_EQ(told([](RunTrace& run) { first(run, 0, "print").text += "."; }), "rank 0, step 3: event");
}

TEST_F(RealTrace, DiffersByAnEventMoreOrLess) {
  EXPECT_EQ(told([](RunTrace& run) { run.by_rank[0].statements[1].events.pop_back(); }),
            "rank 0, step 2: event");
  EXPECT_EQ(told([](RunTrace& run) {
              auto& events = run.by_rank[0].statements[1].events;
              events.push_back(events.back());
            }),
            "rank 0, step 2: event");
}

TEST_F(RealTrace, DiffersInStatementsStatusesAndEnds) {
  EXPECT_EQ(told([](RunTrace& run) { run.by_rank[0].statements[1].statuses = "A.weight=I"; }),
            "rank 0, step 2: statuses");
  EXPECT_EQ(told([](RunTrace& run) { run.by_rank[0].statements[1].text = "t:AB"; }),
            "rank 0, step 2: statement");
  EXPECT_EQ(told([](RunTrace& run) { last(run, 0).failure->exception = "ValueError"; }),
            "rank 0, step 3: failure");
  EXPECT_EQ(told([](RunTrace& run) { last(run, 0).failure->text += " and more"; }),
            "rank 0, step 3: failure");
  EXPECT_EQ(told([](RunTrace& run) { last(run, 0).failure->path.pop_back(); }), "rank 0, step 3: path");
  EXPECT_EQ(told([](RunTrace& run) { last(run, 0).failure.reset(); }), "rank 0, step 3: failure");
  EXPECT_EQ(told([](RunTrace& run) { run.by_rank[0].statements.pop_back(); }), "rank 0, step 3: end");
}

TEST_F(RealTrace, DiffersWhereItWaitsForEver) {
  const auto waits = [](RunTrace& run) {
    last(run, 1).statuses.reset();
    last(run, 1).failure.reset();
    run.by_rank[1].stop = TraceStop{TraceStop::Kind::kTimeout, 2, "not done after 20 s"};
  };
  EXPECT_EQ(told(waits), "rank 1, step 3: hang");
  // A hang may only follow from what another rank did.
  EXPECT_EQ(told([&](RunTrace& run) {
              waits(run);
              last(run, 0).failure->text = "another";
            }),
            "rank 0, step 3: failure");
}

// The model waits in the launch that another rank does not join; real ranks launch, and wait at the handle.
TEST_F(RealTrace, AgreesOnAHang) {
  const TraceEvent gather{.event = "all-gather", .params = {"B.weight"}, .ds_ids = {1}};
  const TraceEvent wait{.event = "wait", .params = {"B.weight"}, .ds_ids = {1}};
  const auto hangs = [&](const std::vector<TraceEvent>& events) {
    RunTrace run = real;
    last(run, 1) = {.text = "t:AC", .events = events};
    run.by_rank[1].stop = TraceStop{TraceStop::Kind::kTimeout, 2, "not done"};
    return run;
  };
  EXPECT_EQ(compare(hangs({gather}), hangs({gather, wait})).outcome, Outcome::kAgrees);
  EXPECT_EQ(compare(hangs({gather}), hangs({gather, TraceEvent{.event = "reset"}})).outcome,
            Outcome::kDiffers);
  RunTrace aborted = hangs({gather, wait});
  aborted.by_rank[1].stop->kind = TraceStop::Kind::kDied;
  EXPECT_EQ(compare(hangs({gather}), aborted).outcome, Outcome::kInconclusive);
}

// A CPU's launch of an old release does not come back before it is complete.
TEST_F(RealTrace, AgreesOnAHangInTheLaunch) {
  const TraceEvent gather{.event = "all-gather", .params = {"B.weight"}, .ds_ids = {1}};
  const auto hangs = [&](const std::vector<TraceEvent>& events) {
    RunTrace run = real;
    last(run, 1) = {.text = "t:AC", .events = events};
    run.by_rank[1].stop = TraceStop{TraceStop::Kind::kTimeout, 2, "not done"};
    return run;
  };
  const TraceEvent reset{.event = "reset"};
  EXPECT_EQ(compare(hangs({gather, reset}), hangs({gather})).outcome, Outcome::kAgrees);
  EXPECT_EQ(compare(hangs({reset, gather}), hangs({reset})).outcome, Outcome::kDiffers) << "no launch before";
}

// Where ranks put other sizes into one collective, gloo kills one, which may not have told its last launch; the other
// misses it, at once or later.
TEST_F(RealTrace, AgreesWhereGlooKillsARankOfAnotherSize) {
  const TraceEvent gather{.event = "all-gather", .params = {"B.weight"}, .ds_ids = {1}};
  const TraceEvent wait{.event = "wait", .params = {"B.weight"}, .ds_ids = {1}};
  RunTrace modelled = real;
  for (const int rank : {0, 1}) {
    last(modelled, rank) = {.text = "t:AC", .events = {gather, wait}};
    modelled.by_rank[static_cast<size_t>(rank)].stop = TraceStop{TraceStop::Kind::kTimeout, 2, "waits", true};
  }
  RunTrace killed = modelled;
  last(killed, 0).events.clear();
  killed.by_rank[0].stop = TraceStop{TraceStop::Kind::kDied, 2, "killed by signal 6 (SIGABRT)"};
  killed.by_rank[1].stop.reset();
  last(killed, 1).failure = TraceFailure{"RuntimeError", "[gloo/pair.cc] Connection closed by peer", {}};
  EXPECT_EQ(compare(modelled, killed).outcome, Outcome::kAgrees);
  // Where a launch does not come back before it is complete, it is the launch that raises.
  for (const char* text :
       {"[gloo/pair.cc] Connection reset by peer", "output_tensor: cpu, input_tensor: cpu"}) {
    RunTrace at_launch = killed;
    last(at_launch, 1) = {
        .text = "t:AC", .events = {gather}, .failure = TraceFailure{"RuntimeError", text, {}}};
    EXPECT_EQ(compare(modelled, at_launch).outcome, Outcome::kAgrees) << text;
    last(at_launch, 1).failure->text = "something else";
    EXPECT_EQ(compare(modelled, at_launch).outcome, Outcome::kDiffers);
  }
  RunTrace otherwise = killed;
  otherwise.by_rank[0].stop->text = "killed by signal 9 (SIGKILL)";
  EXPECT_EQ(compare(modelled, otherwise).outcome, Outcome::kInconclusive);
  RunTrace same_sizes = modelled;
  for (RankTrace& rank : same_sizes.by_rank) rank.stop->sizes_differ = false;
  EXPECT_EQ(compare(same_sizes, killed).outcome, Outcome::kInconclusive);
}

TEST_F(RealTrace, TellsNothingWhereItIsCutDiedOrRefused) {
  EXPECT_EQ(told([](RunTrace& run) {
              run.whole = false;
              run.by_rank.pop_back();
              run.by_rank[0].statements.pop_back();
            }),
            "inconclusive");
  EXPECT_EQ(told([](RunTrace& run) {
              run.by_rank[1].statements.pop_back();
              run.by_rank[1].stop = TraceStop{TraceStop::Kind::kDied, 2, "killed by signal 9 (SIGKILL)"};
            }),
            "inconclusive");
  // One rank waits for another that died, where the model has no hang.
  EXPECT_EQ(told([](RunTrace& run) {
              run.by_rank[0].statements.pop_back();
              run.by_rank[0].stop = TraceStop{TraceStop::Kind::kTimeout, 2, "not done after 20 s"};
              run.by_rank[1].statements.pop_back();
              run.by_rank[1].stop = TraceStop{TraceStop::Kind::kDied, 2, "killed by signal 6 (SIGABRT)"};
            }),
            "inconclusive");
  EXPECT_EQ(told([](RunTrace& run) { last(run, 0).failure->text = "unknown parameter type"; }),
            "inconclusive");
  const Comparison refused = after([](RunTrace& run) { run.refused = "2 ranks need as many GPUs"; });
  EXPECT_EQ(refused.outcome, Outcome::kInconclusive);
  EXPECT_THAT(refused.text, HasSubstr("2 ranks need as many GPUs"));
}

TEST_F(RealTrace, SeesADifferenceBeforeItsCut) {
  EXPECT_EQ(told([](RunTrace& run) {
              run.whole = false;
              first(run, 0, "fetch").step = 5;
              run.by_rank[0].statements.pop_back();
            }),
            "rank 0, step 1: event");
}

TEST_F(RealTrace, MayReleaseInAnotherOrder) {
  const auto release = [](const char* param, int id) {
    return TraceEvent{.event = "release", .params = {param}, .ds_ids = {id}};
  };
  RunTrace ours = real;
  RunTrace theirs = real;
  ours.by_rank[0].statements[1].events = {release("A.weight", 0), release("B.weight", 1)};
  theirs.by_rank[0].statements[1].events = {release("B.weight", 1), release("A.weight", 0)};
  EXPECT_EQ(compare(ours, theirs).outcome, Outcome::kAgrees);
  theirs.by_rank[0].statements[1].events.insert(theirs.by_rank[0].statements[1].events.begin() + 1,
                                                TraceEvent{.event = "reset", .step = 1});
  EXPECT_EQ(compare(ours, theirs).outcome, Outcome::kDiffers);
}

// Which params a fetch has waited for when an empty one raises is Python's order of a set: any one is the release's.
TEST(Held, TakesTheOrderOfASetAsTheRealRunHasIt) {
  const Release release = *Release::parse("0.6.3");  // raises for a param without elements
  Experiment experiment = real_experiment();
  ModuleSpec& several = experiment.model.modules[1];
  several.params.push_back({.name = "second", .shape = {64}});
  several.params.push_back({.name = "none", .shape = {0}});
  const ModelRun first = model_run(experiment, "p", release, 0);
  ASSERT_TRUE(first.result.failed());
  int others = 0;
  for (uint64_t order = 100; order < 110; ++order) {
    const RunTrace real = model_run(experiment, "p", release, order).trace;
    if (compare(first.trace, real).outcome == Outcome::kAgrees) continue;
    ++others;
    EXPECT_TRUE(
        held(experiment, "p", 0, release, {.kind = ProbeAnswer::Kind::kTrace, .trace = real, .text = {}})
            .agrees())
        << order;
    RunTrace changed = real;
    changed.by_rank[0].statements[0].statuses = "D.weight=N";
    EXPECT_FALSE(
        held(experiment, "p", 0, release, {.kind = ProbeAnswer::Kind::kTrace, .trace = changed, .text = {}})
            .agrees())
        << order;
  }
  EXPECT_GT(others, 0);
}

// #5828 ends in an error on this release because a reset raises where later ones clean.
TEST_F(RealTrace, DiffersFromAnotherReleaseByTheFlagThatDecides) {
  const Release later = *Release::parse("0.15.3");
  const ModelRun other = model_run(real_experiment(), kRealProgram, later, 0);
  const Comparison comparison = compare(other.trace, real);
  ASSERT_EQ(comparison.outcome, Outcome::kDiffers);
  std::vector<std::string> flags;
  for (const DecidingFlag& flag : deciding_flags(real_experiment(), later, 0, real, *comparison.difference))
    flags.emplace_back(flag.change.flag);
  EXPECT_THAT(flags, ElementsAre("invalidation_cleans_inflight"));
}

// No mix of flags that the search tries may end the search.
TEST(DecidingFlags, TriesEveryFlagOfEveryEra) {
  RunTrace nothing;
  nothing.ranks = 2;
  nothing.whole = true;
  const Experiment experiment = real_experiment();
  std::string era;
  for (const Release& release : known_releases()) {
    if (era_of(release) == era) continue;
    era = era_of(release);
    const auto difference = difference_of_rank(model_run(experiment, "", release, 0).trace, nothing, 0);
    ASSERT_TRUE(difference);
    EXPECT_TRUE(deciding_flags(experiment, release, 0, nothing, *difference).empty()) << era;
  }
}

TEST(ModelFor, AnInstalledRelease) {
  const auto modelled = [](const std::string& text) {
    const auto found = model_for(text);
    return found ? found->release.text() + (found->exact ? "" : " nearest") : "none";
  };
  EXPECT_EQ(modelled("0.15.2"), "0.15.2");
  EXPECT_EQ(modelled("0.15.2+cu121"), "0.15.2");
  EXPECT_EQ(modelled("99.0.0"), known_releases().back().text() + " nearest");
  EXPECT_EQ(modelled("0.3.1"), known_releases().front().text() + " nearest");
  EXPECT_EQ(modelled("master"), "none");
}

TEST(SameError, IsBlindToValuesOrderAndFoldersAlone) {
  EXPECT_TRUE(same_error("X: tensor([[0.1, 2.]], requires_grad=True) not",
                         "X: tensor([[...]], requires_grad=True) not"));
  EXPECT_FALSE(same_error("X: tensor([]) not", "X: tensor([[...]]) not"));
  const std::string a = "{'id': 1, 'status': 'INFLIGHT', 'active_sub_modules': set()}";
  const std::string b = "{'id': 2, 'status': 'INFLIGHT', 'active_sub_modules': {3}}";
  EXPECT_TRUE(same_error("X: [" + a + ", " + b + "]", "X: [" + b + ", " + a + "]"));
  EXPECT_FALSE(same_error("X: [" + a + ", " + b + "]", "X: [" + a + ", " + a + "]"));
  const std::string several = "{'id': 2, 'status': 'INFLIGHT', 'active_sub_modules': {5, 4}}";
  EXPECT_TRUE(
      same_error("X: " + several, "X: {'id': 2, 'status': 'INFLIGHT', 'active_sub_modules': {4, 5}}"));
  EXPECT_FALSE(
      same_error("X: " + several, "X: {'id': 2, 'status': 'INFLIGHT', 'active_sub_modules': {4, 6}}"));
  EXPECT_TRUE(same_error("X: no name (/opt/a.py)", "X: no name (/home/b.py)"));
  EXPECT_TRUE(same_error("X: rank0: [np.int64(0), np.int64(-1)]", "X: rank0: [0, -1]"));
  EXPECT_FALSE(same_error("RuntimeError: no", "ValueError: no"));
}

}  // namespace
}  // namespace zero3::sim
