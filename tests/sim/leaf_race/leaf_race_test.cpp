// The race of a scenario's leaf module: which module, what is refused, the texts, and on which releases it fails.
#include "sim/leaf_race/leaf_race.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/leaf_race/race_report.h"
#include "sim/leaf_race/race_story.h"
#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTwoOutputs = "leaf: true, outputs: 2";
constexpr uint64_t kEnough = 1'000'000;

// A dense layer and a block of two matrices.
Experiment with_block(const std::string& block, int ranks = 2, int64_t threshold = 0) {
  return scenario("zero3sim: 1\nmodel: {children: {fc: \"Linear(4, 4)\", moe: {type: Moe, " + block +
                  ", params: {a: [2, 3], b: [4]}}}}\ndeepspeed_config: {zero_optimization: {stage: 3, "
                  "stage3_param_persistence_threshold: " +
                  std::to_string(threshold) + "}}\nprogram: [train]\n")
      .experiment(ranks, 0);
}

Release release(const std::string& text) { return *Release::parse(text); }

RacingLeaf leaf_of(const Experiment& experiment, const std::string& deepspeed, RaceOptions options = {}) {
  return racing_leaf(experiment, release(deepspeed), options, "x.yaml");
}

std::string refusal(const Experiment& experiment, const std::string& deepspeed, RaceOptions options = {}) {
  try {
    leaf_of(experiment, deepspeed, options);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

// Exception and text at the end of a shortest interleaving.
std::string raised(const RacingLeaf& leaf, RaceFailure failure) {
  const FetchThreads threads(leaf.setup);
  const auto all = explore(threads, kEnough);
  const RaceOutcome* outcome = all->find({.failure = failure});
  if (outcome == nullptr) return "";
  const RaceStory story = tell(threads, outcome->shortest);
  return leaf.exception(story.steps.back()) + ": " + leaf.text(story.steps.back(), story.state);
}

TEST(RacingLeafs, TheLeafAsTheEngineHasIt) {
  const RacingLeaf leaf = leaf_of(with_block(kTwoOutputs), "0.15.2");
  EXPECT_EQ(leaf.name, "moe");
  EXPECT_EQ(leaf.ds_id, 2);  // the root is 0
  EXPECT_EQ(leaf.partitioned, 2U);
  EXPECT_EQ(leaf.local_name(0), "a");
  EXPECT_EQ(leaf.local_name(1), "b");
  EXPECT_FALSE(leaf.setup.skips_gather);
  EXPECT_TRUE(leaf_of(with_block(kTwoOutputs, 1), "0.15.2").setup.skips_gather);
}

TEST(RacingLeafs, PersistentParamsAreLeftOut) {
  const RacingLeaf leaf = leaf_of(with_block(kTwoOutputs, 2, 5), "0.15.2");
  EXPECT_EQ(leaf.partitioned, 1U);
  EXPECT_EQ(leaf.local_name(0), "a");
}

TEST(RacingLeafs, OnlyBeforeOneThreadFetches) {
  for (const Release& known : known_releases()) {
    const Behaviour behaviour = behaviour_of(known);
    if (!behaviour.leaf_modules) continue;
    const RacingLeaf leaf = racing_leaf(with_block(kTwoOutputs), known, {}, "x.yaml");
    const RaceReport report{"x", {known}, leaf, *explore(FetchThreads(leaf.setup), kEnough), false, ""};
    EXPECT_EQ(report.fails(), !behaviour.leaf_fetch_lock) << known.text();
  }
}

// deepspeedai/DeepSpeed#7824; the texts are those of the release's own code, held against it by
// scripts/checks/leaf-races.
TEST(RacingLeafs, TextsAreDeepSpeeds) {
  const RacingLeaf leaf = leaf_of(with_block(kTwoOutputs), "0.15.2");
  const std::string in_flight =
      "{'id': 2, 'status': 'INFLIGHT', 'numel': 0, 'ds_numel': 6, 'shape': (0,), 'ds_shape': (2, 3), "
      "'requires_grad': True, 'grad_shape': None, 'persist': False, 'active_sub_modules': set(), "
      "'ds_tensor.shape': torch.Size([3])}";
  EXPECT_EQ(raised(leaf, RaceFailure::kGatherPartitioned), "RuntimeError: " + in_flight);
  EXPECT_EQ(raised(leaf, RaceFailure::kAlreadyInRegistry),
            "RuntimeError: " + in_flight + " already in registry");
  EXPECT_THAT(raised(leaf, RaceFailure::kRegisterNotInflight),
              StartsWith("RuntimeError: attempted to add non-inflight parameter to registry {'id': 3, "
                         "'status': 'AVAILABLE', 'numel': 4, "));
  EXPECT_THAT(raised(leaf, RaceFailure::kRegisterInflight),
              StartsWith("AssertionError: {'id': 3, 'status': 'AVAILABLE', "));
  EXPECT_THAT(raised(leaf, RaceFailure::kNotAvailable),
              StartsWith("AssertionError: {'id': 2, 'status': 'INFLIGHT', "));
  EXPECT_THAT(raised(leaf, RaceFailure::kHandleWaited), HasSubstr("'active_sub_modules': {2}, "));
  EXPECT_THAT(raised(leaf, RaceFailure::kHandleWaited), HasSubstr("} to be inflight"));
  EXPECT_THAT(raised(leaf, RaceFailure::kHandleMade), HasSubstr("} to be available"));
  EXPECT_EQ(raised(leaf, RaceFailure::kPoppedMeanwhile),
            "KeyError: Parameter containing:\ntensor([], requires_grad=True)");
}

TEST(RacingLeafs, OneRankRefusesAGatherInOtherWords) {
  EXPECT_THAT(
      raised(leaf_of(with_block(kTwoOutputs, 1), "0.15.2"), RaceFailure::kGatherPartitioned),
      StartsWith("RuntimeError: expect param.ds_status == ZeroParamStatus.NOT_AVAILABLE, got{'id': 2, "));
}

TEST(RacingLeafs, WhatIsRefused) {
  EXPECT_THAT(refusal(with_block("outputs: 2"), "0.15.2"), HasSubstr("x.yaml: the model has no leaf module"));
  EXPECT_THAT(refusal(with_block(kTwoOutputs), "0.15.2", {.module = "moo"}),
              HasSubstr("--module:1:1: error: the model has no module of that name"));
  EXPECT_THAT(refusal(with_block(kTwoOutputs), "0.15.2", {.module = "fc"}),
              HasSubstr("--module:1:1: error: this module is not a leaf module"));
  EXPECT_THAT(refusal(with_block("leaf: true"), "0.15.2"),
              HasSubstr("the leaf module moe returns one tensor, so that its pre-backward hook runs once"));
  EXPECT_THAT(refusal(with_block(kTwoOutputs), "0.12.6"), HasSubstr("DeepSpeed 0.12.6 has no leaf modules"));
  EXPECT_THAT(refusal(with_block(kTwoOutputs), "0.12.6"), HasSubstr("0.13.0 brought them"));
}

TEST(RacingLeafs, OneTensorTwiceIfThreadsAreGiven) {
  EXPECT_EQ(refusal(with_block("leaf: true"), "0.15.2", {.threads = 2, .threads_given = true}), "");
}

TEST(RacingLeafs, AStoryInWords) {
  const RacingLeaf leaf = leaf_of(with_block(kTwoOutputs), "0.15.2", {.prefetched = true});
  const RaceStory story = tell(FetchThreads(leaf.setup), {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0});
  EXPECT_THAT(
      story_lines(leaf, story),
      ElementsAre("thread 1  fetch_sub_module: a is INFLIGHT, b is INFLIGHT, a is in use by the module, "
                  "a is in the registry",
                  "thread 2  fetch_sub_module: a is INFLIGHT, b is INFLIGHT, a is in use by the module, "
                  "a is in the registry, takes the handle of a, removes a from the registry",
                  "thread 1  fetch_sub_module: a is no longer in the registry: raises"));
}

}  // namespace
}  // namespace zero3::sim
