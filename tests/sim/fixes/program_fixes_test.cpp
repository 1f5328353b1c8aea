// Each change of a program that is known to cure something: what it makes of a program, and where it has nothing to do.
#include "sim/fixes/program_fixes.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fixes/model_fixes.h"
#include "sim/fixes/plan_edit.h"
#include "sim/short_form.h"
#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using ::testing::ElementsAre;

Experiment short_form(const std::string& program, const ShortFormOptions& options = {}) {
  return parse_short_form(program, options);
}

std::string texts_of(const std::optional<Experiment>& experiment) {
  if (!experiment) return "nothing";
  std::string texts;
  for (const Statement& statement : experiment->rank_programs[0])
    texts += (texts.empty() ? "" : " ") + statement.text;
  return texts;
}

TEST(ProgramFixes, EmptyTheCacheBeforeSaves) {
  EXPECT_EQ(texts_of(empty_cache_before_saves(short_form("t:AB gm:A w"))),
            "t:AB empty_partition_cache gm:A empty_partition_cache w");
  EXPECT_EQ(texts_of(empty_cache_before_saves(short_form("t:AB"))), "nothing");
  EXPECT_EQ(texts_of(empty_cache_before_forwards(short_form("f:AB b s"))), "empty_partition_cache f:AB b s");
  EXPECT_THAT(kinds_of(*empty_cache_before_steps(short_form("f:A b s"))),
              ElementsAre(OpKind::kTrain, OpKind::kForward, OpKind::kBackward, OpKind::kEmptyPartitionCache,
                          OpKind::kStep));
}

TEST(ProgramFixes, SwitchToTrainModeBeforeABackward) {
  EXPECT_THAT(kinds_of(*train_before_backward(short_form("E:AB b"))),
              ElementsAre(OpKind::kEval, OpKind::kForward, OpKind::kTrain, OpKind::kBackward));
  EXPECT_FALSE(train_before_backward(short_form("t:AB")));
  Experiment tower = short_form("f:AB b");
  tower.rank_programs[0][0].ops.push_back({.kind = OpKind::kEval, .module = 1});
  EXPECT_TRUE(train_before_backward(tower)) << "one module is in evaluation mode";
}

TEST(ProgramFixes, EvaluateWhatNeedsNoGradients) {
  EXPECT_THAT(kinds_of(*eval_around_no_grad(short_form("F:AB"))),
              ElementsAre(OpKind::kTrain, OpKind::kEval, OpKind::kForward, OpKind::kTrain));
  EXPECT_FALSE(eval_around_no_grad(short_form("e:AB t:AB")));
}

TEST(ProgramFixes, MoveSavesOutOfAStep) {
  const Experiment inside = short_form("t:AB f:AB w b s t:AB");
  EXPECT_EQ(texts_of(saves_after_step(inside)), "t:AB f:AB b s w t:AB");
  EXPECT_EQ(texts_of(saves_before_step(inside)), "t:AB w f:AB b s t:AB");
  EXPECT_FALSE(saves_after_step(short_form("t:AB w t:AB")));
  EXPECT_FALSE(saves_after_step(short_form("t:AB f:AB w"))) << "no step comes after it";
  ShortFormOptions accumulating;
  accumulating.gradient_accumulation_steps = 2;
  EXPECT_EQ(texts_of(saves_after_step(short_form("t:AB w t:AB", accumulating))), "t:AB t:AB w");
}

TEST(ProgramFixes, MoveEvaluations) {
  EXPECT_EQ(texts_of(evaluations_after_step(short_form("f:AB e:AB b s"))), "f:AB b s e:AB");
  EXPECT_EQ(texts_of(saves_before_evaluation(short_form("t:AB e:AB e:AB w"))), "t:AB w e:AB e:AB");
  EXPECT_FALSE(saves_before_evaluation(short_form("t:AB w e:AB")));
}

TEST(ProgramFixes, RunWhatIsSkippedAndDiscardIt) {
  const std::optional<Experiment> changed = discard_skipped(short_form("t:ABC t:AC"));
  ASSERT_TRUE(changed);
  EXPECT_EQ(forwards_of(*changed), "A B C\nA B C\n");
  const Calls& calls = changed->rank_programs[0][1].ops[1].plan;
  EXPECT_FALSE(calls[0].discard_output);
  EXPECT_TRUE(calls[1].discard_output);
  EXPECT_FALSE(calls[2].discard_output);
  EXPECT_FALSE(discard_skipped(short_form("t:ABC t:ABC")));
}

// The mode is afterwards what it was.
TEST(ProgramFixes, EvaluateEverythingFirst) {
  EXPECT_EQ(texts_of(prologue_before_branches(short_form("t:ABC t:AC"))), "t:ABC evaluate: everything t:AC");
  EXPECT_EQ(texts_of(prologue_before_saves(short_form("t:ABC w"))), "t:ABC evaluate: everything w");
  const Experiment evaluating =
      scenario(kThreeLayers +
               "program: [eval_mode, {forward: fc1 fc2, grad: false}, {forward: all, grad: false}]\n")
          .experiment();
  EXPECT_THAT(kinds_of(*prologue_before_branches(evaluating)),
              ElementsAre(OpKind::kEval, OpKind::kForward, OpKind::kForward, OpKind::kForward));
}

TEST(ProgramFixes, GatherOnceAndOutside) {
  const std::optional<Experiment> once = gather_each_once(short_form("t:ABC gm:ABA"));
  ASSERT_TRUE(once);
  EXPECT_EQ(once->rank_programs[0][1].ops[0].params.size(), 2U);
  const Experiment nested =
      scenario(kThreeLayers +
               "program: [{gather: [fc1.weight], do: [{gather: [fc1.weight, fc2.weight], "
               "do: [train]}]}]\n")
          .experiment();
  const std::optional<Experiment> outside = gather_outside(nested);
  ASSERT_TRUE(outside);
  const Program& program = outside->rank_programs[0];
  EXPECT_EQ(program.front().ops[0].params.size(), 2U);
  EXPECT_EQ(program.back().ops[0].params.size(), 2U);
  EXPECT_EQ(program.size(), 3U);
}

TEST(ProgramFixes, OnEveryRankTheSame) {
  const Experiment apart =
      scenario(kThreeLayers + "ranks: 2\nprogram: [train, {when: {rank: [0]}, do: [save_checkpoint]}]\n")
          .experiment();
  const std::optional<Experiment> changed = same_on_every_rank(apart);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->rank_programs[1], apart.rank_programs[0]);
  EXPECT_FALSE(same_on_every_rank(*changed));
}

TEST(ProgramFixes, ReloadStatesBeforeTheyAreUsed) {
  EXPECT_EQ(texts_of(reload_states_before_use(short_form("t:A os t:A t:A"))), "t:A os reload_states t:A t:A");
  EXPECT_FALSE(reload_states_before_use(short_form("t:A os rs t:A")));
}

TEST(ModelFixes, LeafModulesWhereItBranches) {
  const std::string model =
      "zero3sim: 1\nmodel:\n  children:\n    embed: Linear(4, 4)\n"
      "    block: {type: Block, children: {a: \"Linear(4, 4)\", b: \"Linear(4, 4)\"}}\n";
  const Experiment inside =
      scenario(model + "program: [{train: \"embed block[a b]\"}, {train: \"embed block[a]\"}]\n")
          .experiment();
  const std::optional<Experiment> changed = leaf_modules_at_branches(inside);
  ASSERT_TRUE(changed);
  EXPECT_TRUE(changed->model.modules[2].leaf);
  EXPECT_FALSE(leaf_modules_at_branches(*changed));
  EXPECT_FALSE(leaf_modules_at_branches(short_form("t:ABC t:AC"))) << "the root branches";
}

// The prefetch at A takes C first, then D: a bucket of 64 ends before D.
TEST(ModelFixes, FindWhichPrefetchTookTheUnusedParam) {
  ShortFormOptions options;
  options.prefetch_bucket_numel = 128;
  const Experiment experiment = parse_short_form("t:ABCD t:ABCD t:ABC", options);
  const Release release{0, 15, 2};
  const Outcome outcome = outcome_of(experiment, release);
  ASSERT_TRUE(outcome.failure);
  ASSERT_EQ(outcome.failure->params.size(), 1U);
  const std::optional<EarlyGather> early = find_early_gather(experiment, release, 0, outcome);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->param, outcome.failure->params[0].name);
  EXPECT_EQ(early->numel_before, 64);
  EXPECT_EQ(largest_skipped_numel(experiment, outcome), 64);
}

}  // namespace
}  // namespace zero3::sim
