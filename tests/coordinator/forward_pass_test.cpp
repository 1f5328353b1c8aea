// What torch does with a plan: which hooks run in which order, forward and backward.
#include "coordinator/forward_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_engine.h"

namespace zero3 {
namespace {

using test::Config;
using test::joined;
using test::model;
using test::outcome;
using test::RecordedEvent;
using test::TestEngine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// "root A B | root B A": the modules fetched forward and backward by a program.
std::string fetches(TestEngine& engine, const std::string& program) {
  engine.observer().events.clear();
  EXPECT_EQ(engine.run(program), "ok") << engine.failure().message();
  std::vector<std::string> forward;
  std::vector<std::string> backward;
  for (const RecordedEvent& event : engine.observer().all(EventKind::kFetch))
    (event.forward ? forward : backward).push_back(event.module);
  return joined(forward, " ") + " | " + joined(backward, " ");
}

std::string fetches(const std::string& program, const Config& config = {}) {
  TestEngine engine("0.19.8", config);
  return fetches(engine, program);
}

TEST(Hooks, ChainRunsBackInReverse) { EXPECT_EQ(fetches("t:ABC"), "root A B C | root C B A"); }

TEST(Hooks, NestedModulesRunAroundTheirChildren) {
  EXPECT_EQ(fetches("t:A[b]C", {.model = model().layers("A").layer("A.b").layers("C")}),
            "root A b C | root C A b");
}

// eras.md, 5.2: once for each output tensor that receives a gradient; each is a step and a trace entry.
TEST(Hooks, PreBackwardRunsOncePerOutput) {
  EXPECT_EQ(fetches("t:AB", {.model = model().layers("AB").outputs("A", 3)}), "root A B | root B A A A");
}

TEST(Hooks, RepeatedModuleRunsBackAsOftenAsItRan) { EXPECT_EQ(fetches("t:AAB"), "root A A B | root B A A"); }

// A twice registered module's hooks run twice at each call.
TEST(Hooks, SharedModuleIsFetchedTwice) {
  EXPECT_EQ(fetches("t:AB", {.model = model().layers("AB").also_below("X", "A")}), "root A A B | root B A A");
}

// torch's own words, until engine.backward looks at the loss itself (#7665, v0.18.3).
TEST(Hooks, NoGradForwardHasNoBackward) {
  const auto message = [](std::string_view release) {
    TestEngine engine(release);
    EXPECT_EQ(fetches(engine, "F:AB"), "root A B | ");
    EXPECT_EQ(engine.run("b"), "NOGRAD");
    return engine.failure().message();
  };
  EXPECT_EQ(message("0.15.2"),
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn");
  EXPECT_EQ(message("0.18.3"),
            "AssertionError: loss must be a scalar tensor. If you need to pass output gradients, backward() "
            "of output "
            "tensors");
}

TEST(Hooks, DiscardedOutputRunsNoBackward) { EXPECT_EQ(fetches("t:AB_C"), "root A B C | root C A"); }

// The gradient stops at the input that requires none; A's backward never comes.
TEST(Hooks, DetachedInputEndsTheBackward) { EXPECT_EQ(fetches("t:AB~C"), "root A B C | root C B"); }

// Frozen modules in front have outputs without grad: no pre-backward hook either.
TEST(Hooks, FrozenModulesBeforeTheFirstTrainableOne) {
  const Config frozen = {.model = model().layers("ABC").frozen("A"), .input_grad = false};
  EXPECT_EQ(fetches("t:ABC", frozen), "root A B C | root C B");
}

TEST(Hooks, FrozenModuleInTheMiddlePassesGradientsOn) {
  EXPECT_EQ(fetches("t:ABC", {.model = model().layers("ABC").frozen("B")}), "root A B C | root C B A");
}

// A module none of whose inputs requires grad never runs its post-backward hook: its params stay active.
TEST(PostBackward, NeedsAnInputThatRequiresGrad) {
  TestEngine engine("0.15.2", {.input_grad = false});
  ASSERT_EQ(engine.run("tb:AB"), "ok");
  EXPECT_EQ(engine.status("A"), "A*");
  EXPECT_EQ(engine.status("B"), "N");
}

// #6726 (v0.16.0-v0.16.7): the counter of pending gradients is made once and never zeroed again. A forward that is not
// back-propagated leaves it positive, and the module never releases (DeepSpeed#7116).
TEST(PostBackward, StickyCounterHoldsParams) {
  const auto after = [](std::string_view release) {
    TestEngine engine(release, {.prefetch = 1});
    EXPECT_EQ(engine.run("t:ABC t:ABC f:ABC f:ABC b"), "ok");
    return engine.statuses().substr(0, 14);
  };
  for (const char* sticky : {"0.16.0", "0.16.7"}) EXPECT_EQ(after(sticky), "A=A* B=A* C=A*") << sticky;
  for (const char* zeroed : {"0.15.4", "0.16.8", "0.19.8"})
    EXPECT_EQ(after(zeroed).find('*'), std::string::npos);
}

TEST(Backward, SecondTimeIsRefused) {
  TestEngine engine("0.19.8");
  EXPECT_EQ(engine.run("tb:A b"), "NOGRAD");
  EXPECT_THAT(engine.failure().text, HasSubstr("Trying to backward through the graph a second time"));
}

// The gradients are reduced in the order in which they are accumulated; a frozen weight has none.
TEST(Backward, ReducesTheGradientsOfTrainableWeights) {
  TestEngine engine("0.19.8", {.model = model().layers("ABC").frozen("B"), .world = 2});
  ASSERT_EQ(engine.run("f:ABC"), "ok");
  engine.ranks().clear();
  ASSERT_EQ(engine.run("b"), "ok");
  std::string reduced;
  for (const std::string& call : engine.ranks().log) {
    if (call.starts_with("reduce_scatter ")) reduced += call.substr(15);
  }
  EXPECT_EQ(reduced, "CA");
}

// --- activation checkpointing --------------------------------------------------------------------------------------

const Config kBlocks = {.model = model().activation("A").layer("A.b").layer("A.c").layers("D")};

// use_reentrant=True: the region runs without grad, and again, with a backward of its own, inside the backward.
TEST(Checkpoint, ReentrantRunsItsRegionAgain) {
  EXPECT_EQ(fetches("t:A![bc]D", kBlocks), "root A b c D A b c | root D A c b");
}

// use_reentrant=False: the forward records, the first saved tensor that backward asks for runs the region again.
TEST(Checkpoint, NonReentrantRunsItsRegionAgain) {
  EXPECT_EQ(fetches("t:A?[bc]D", kBlocks), "root A b c D A b c | root D A c b");
}

TEST(Checkpoint, WithoutGradItIsAPlainCall) { EXPECT_EQ(fetches("F:A![bc]D", kBlocks), "root A b c D | "); }

// Each application of one module has its own region.
TEST(Checkpoint, RepeatedRegionsRunAgainOneByOne) {
  EXPECT_EQ(fetches("t:B?C?", {}), "root B C C B | root C B");
}

// --- weights of other modules --------------------------------------------------------------------------------------

// In the engine's forward, reading a partitioned weight registers it as external and gathers it (#976, v0.3.15).
TEST(ExternalWeight, IsGatheredWhereItIsRead) {
  TestEngine engine("0.19.8", {.model = model().layers("AB").uses("B", "A")});
  EXPECT_EQ(engine.run("f:AB"), "ok");
  EXPECT_EQ(engine.observer().all(EventKind::kExternal, "A").front().module, "B");
  EXPECT_EQ(engine.module("B").external_params.front(), &engine.param("A"));
}

TEST(ExternalWeight, RegisteredBeforehandComesWithTheFetch) {
  TestEngine engine("0.19.8", {.model = model().layers("AB").uses("B", "A", true)});
  EXPECT_THAT(engine.events("f:AB"), HasSubstr("[2]fetch(B) AG{AB}"));
}

// Called without the engine nothing gathers it: torch meets an empty tensor.
TEST(ExternalWeight, OutsideTheEngineItIsEmpty) {
  TestEngine engine("0.19.8", {.model = model().layers("AB").uses("B", "A")});
  EXPECT_EQ(engine.run("sub:AB"), "EMPTY(A NOT_AVAILABLE)");
}

// Up to v0.5.10 one element is left, which only a Linear's own weight cannot be: here the Linear has none.
TEST(ExternalWeight, OfALinearWithoutParamsMayBeOneElement) {
  TestEngine engine("0.5.10", {.model = model().layers("A").layer("B", {}).uses("B", "A")});
  ASSERT_EQ(engine.module("B").type, "Linear");
  ASSERT_TRUE(engine.module("B").own_params.empty());
  EXPECT_EQ(engine.run("sub:B"), "ok");
}

}  // namespace
}  // namespace zero3
