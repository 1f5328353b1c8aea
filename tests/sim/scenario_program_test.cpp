// Programs: what each step becomes, and what repeats, branches, choices and draws make of it on each rank.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kNested =
    "zero3sim: 1\n"
    "model:\n"
    "  children:\n"
    "    emb: Embedding(10, 4)\n"
    "    layers: {type: ModuleList, children: {\"0\": {children: {attn: \"Linear(4, 4)\", mlp: \"Linear(4, "
    "4)\"}}, \"1\": \"Linear(4, 4)\"}}\n"
    "    experts: {type: ModuleList, children: {\"0\": ReLU, \"1\": ReLU, \"2\": ReLU, \"3\": ReLU}}\n"
    "    head: Linear(4, 10)\n"
    "  forward: emb layers head\n";

Experiment run(const std::string& program, int ranks = 1, uint64_t seed = 0) {
  const std::string world = "\nranks: " + std::to_string(ranks) + "\n";
  return scenario(kNested + "program:\n" + program + world).experiment(ranks, seed);
}

TEST(ScenarioProgram, TrainIsModeForwardBackwardStep) {
  const Experiment experiment = run("  - train\n");
  EXPECT_THAT(kinds_of(experiment),
              ElementsAre(OpKind::kTrain, OpKind::kForward, OpKind::kBackward, OpKind::kStep));
  EXPECT_EQ(forwards_of(experiment), "emb layers.0[layers.0.attn layers.0.mlp] layers.1 head\n");
  EXPECT_FALSE(experiment.input_requires_grad);
}

TEST(ScenarioProgram, ModesOfModules) {
  const Program program =
      run("  - eval_mode: emb\n  - train_mode: [head, emb]\n  - train_mode\n").rank_programs[0];
  ASSERT_EQ(program.size(), 3u);
  ASSERT_EQ(program[1].ops.size(), 2u);
  EXPECT_EQ(program[0].ops[0].kind, OpKind::kEval);
  EXPECT_EQ(program[0].ops[0].module, program[1].ops[1].module);
  EXPECT_NE(program[1].ops[0].module, program[1].ops[1].module);
  EXPECT_EQ(program[2].ops[0].module, -1);
}

TEST(ScenarioProgram, EveryOperationCanBeWritten) {
  const Experiment experiment = run(R"(
  - forward: emb
  - {forward: emb, direct: true, grad: false}
  - backward
  - step
  - train_mode
  - eval_mode
  - save_16bit_model
  - consolidated_16bit_state_dict
  - save_checkpoint
  - load_checkpoint
  - empty_partition_cache
  - offload_states
  - gather: [emb.weight]
    do: [{gather: head, modifier_rank: 0}]
  - unwrap_model_for_generation: [forward]
  - register_hooks_again
)");
  EXPECT_THAT(
      kinds_of(experiment),
      ElementsAre(OpKind::kForward, OpKind::kForwardDirect, OpKind::kBackward, OpKind::kStep, OpKind::kTrain,
                  OpKind::kEval, OpKind::kSave16bit, OpKind::kConsolidate, OpKind::kSaveCheckpoint,
                  OpKind::kLoadCheckpoint, OpKind::kEmptyPartitionCache, OpKind::kOffloadStates,
                  OpKind::kGatherEnter, OpKind::kGatherEnter, OpKind::kGatherExit, OpKind::kGatherExit,
                  OpKind::kUnwrapEnter, OpKind::kForward, OpKind::kUnwrapExit, OpKind::kRegisterHooksAgain));
  const Program& program = experiment.rank_programs[0];
  EXPECT_FALSE(program[1].ops[0].grad_enabled);
  EXPECT_EQ(program[12].ops[0].modifier_rank, -1);
  EXPECT_EQ(program[13].ops[0].modifier_rank, 0);
  EXPECT_EQ(program[13].ops[0].params.size(), 2u);
}

TEST(ScenarioProgram, AnOverflowingStepOverflowsHoweverItIsWritten) {
  for (const char* step : {"  - overflowing_step\n", "  - {overflowing_step: , engine: 0}\n",
                           "  - {train: emb, overflow: true}\n"}) {
    const Op update = run(step).rank_programs[0][0].ops.back();
    EXPECT_EQ(update.kind, OpKind::kStep) << step;
    EXPECT_TRUE(update.overflow) << step;
  }
  EXPECT_FALSE(run("  - step\n").rank_programs[0][0].ops.back().overflow);
}

TEST(ScenarioProgram, EvaluateGoesBackToTraining) {
  const Experiment experiment = run("  - evaluate: emb\n");
  EXPECT_THAT(kinds_of(experiment), ElementsAre(OpKind::kEval, OpKind::kForward, OpKind::kTrain));
  EXPECT_FALSE(experiment.rank_programs[0][0].ops[1].grad_enabled);
}

TEST(ScenarioProgram, AStatementSaysWhatWasWritten) {
  const Program program = run(R"(
  - train: [emb, head]
  - {forward: "emb head:discard", grad: false}
  - gather: [emb.weight, head]
    modifier_rank: 0
)")
                              .rank_programs[0];
  EXPECT_EQ(program[0].text, "train: emb head");
  EXPECT_EQ(program[1].text, "forward: emb head:discard, grad: false");
  EXPECT_EQ(program[2].text, "gather: emb.weight head, modifier_rank: 0");
  EXPECT_EQ(program[3].text, "end of gather: emb.weight head, modifier_rank: 0");
  EXPECT_EQ(program[0].place.line, 11);
  EXPECT_EQ(program[0].place.column, 5);
}

TEST(ScenarioProgram, PlansNameModulesFromWhereTheyAreCalled) {
  EXPECT_EQ(forwards_of(run("  - train: layers.0[attn] layers.1[] emb\n")),
            "layers.0[layers.0.attn] layers.1 emb\n");
  EXPECT_EQ(forwards_of(run("  - train: layers.*\n")), "layers.0[layers.0.attn layers.0.mlp] layers.1\n");
  EXPECT_EQ(forwards_of(run("  - train: layers.0[mlp head]\n")),
            "layers.0[layers.0.mlp head]\n");  // no child: as in Python
  EXPECT_EQ(forwards_of(run("  - train: []\n")), "\n");
}

TEST(ScenarioProgram, SuffixesOfCalls) {
  const Experiment experiment =
      run("  - train: emb:detach layers.*:checkpoint layers.0:reentrant[attn:discard] "
          "layers.1:whole_recompute\n");
  const std::vector<PlannedCall>& plan = experiment.rank_programs[0][0].ops[1].plan;
  ASSERT_EQ(plan.size(), 5u);
  EXPECT_TRUE(plan[0].detach_input);
  EXPECT_EQ(plan[1].checkpointing, Checkpointing::kNonReentrant);
  EXPECT_EQ(plan[2].checkpointing, Checkpointing::kNonReentrant);
  EXPECT_EQ(plan[3].checkpointing, Checkpointing::kReentrant);
  EXPECT_TRUE(plan[3].children[0].discard_output);
  EXPECT_EQ(plan[4].checkpointing, Checkpointing::kWholeRecompute);
}

TEST(ScenarioProgram, RepeatsAndBranches) {
  const Experiment experiment = run(R"(
  - repeat: 3
    do:
      - when: {rank: 1, iteration: [2, 3]}
        do: [{forward: emb}]
        else: [{forward: head}]
)",
                                    2);
  EXPECT_EQ(forwards_of(experiment, 0), "head\nhead\nhead\n");
  EXPECT_EQ(forwards_of(experiment, 1), "head\nemb\nemb\n");
}

const std::string kChoice = R"(
  - repeat: 20
    do:
      - choose: [[{forward: emb}], {weight: 3, do: [{forward: head}]}]
)";

TEST(ScenarioProgram, AChoiceIsTheSameOnEveryMachine) {
  // Fixed by the hash in scenario_unroll.cpp: a change here breaks the reproducer lines that people have kept.
  std::string drawn;
  const Program program = run(kChoice).rank_programs[0];
  for (const Statement& statement : program) drawn += statement.text == "forward: emb" ? 'e' : 'h';
  EXPECT_EQ(drawn, "hhhhhheehehehhhhehhh");
  EXPECT_NE(forwards_of(run(kChoice, 1, 1)), forwards_of(run(kChoice, 1, 2)));
}

TEST(ScenarioProgram, ChoicesAreCommonUnlessPerRank) {
  const Experiment common = run(kChoice, 2);
  EXPECT_EQ(forwards_of(common, 0), forwards_of(common, 1));
  const Experiment own = run(kChoice + "        per_rank: true\n", 2);
  EXPECT_NE(forwards_of(own, 0), forwards_of(own, 1));
}

TEST(ScenarioProgram, DrawsKeepOrderAndDifferByIteration) {
  const Experiment experiment = run("  - repeat: 20\n    do: [{forward: \"experts.?2\"}]\n");
  std::set<std::string> seen;
  for (const Statement& statement : experiment.rank_programs[0]) {
    const std::vector<PlannedCall>& plan = statement.ops[0].plan;
    ASSERT_EQ(plan.size(), 2u);
    EXPECT_LT(plan[0].module, plan[1].module);
    seen.insert(names_of(plan, experiment.model));
  }
  EXPECT_GT(seen.size(), 3u);  // of 6
  const Experiment own = run("  - repeat: 5\n    do: [{forward: \"experts.?2:per_rank\"}]\n", 2);
  EXPECT_NE(forwards_of(own, 0), forwards_of(own, 1));
  EXPECT_THAT(error_of(kNested + "program: [{forward: \"experts.?5\"}]\n"),
              HasSubstr("'experts' has 4 children to draw from"));
}

TEST(ScenarioProgram, NamedPlansMayNameOthers) {
  const std::string plans = "plans: {start: emb, whole: [start, \"layers.0[attn]\", head]}\n";
  EXPECT_EQ(forwards_of(scenario(kNested + plans + "program: [{train: whole}]\n").experiment()),
            "emb layers.0[layers.0.attn] head\n");
}

TEST(ScenarioProgram, AStepThatTheReleaseDoesNotHave) {
  const auto check = [](const std::string& program, const char* release) -> std::string {
    try {
      const Scenario checked = scenario(kNested + program);
      check_release(checked, checked.experiment(), *Release::parse(release));
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  const std::string unwrap = "program:\n  - train\n  - unwrap_model_for_generation\n";
  EXPECT_EQ(check(unwrap, "0.14.5"),
            "x.yaml:11:5: error: DeepSpeed 0.14.5 has no unwrap_model_for_generation\n"
            "    - unwrap_model_for_generation\n"
            "      ^\n"
            "  0.15.0 brought it");
  EXPECT_EQ(check(unwrap, "0.15.0"), "");
  EXPECT_EQ(check(unwrap + "expect: [{deepspeed: <= 0.14.5, failure: missing-method}]\n", "0.14.5"), "");
  EXPECT_THAT(check("program: [empty_partition_cache]\n", "0.8.3"), HasSubstr("0.9.0 brought it"));
  EXPECT_THAT(check("program: [offload_states]\n", "0.9.0"), HasSubstr("0.15.2 brought it"));
  EXPECT_THAT(check("program: [save_fp16_model]\n", "0.3.13"), HasSubstr("0.3.14 brought it"));
  EXPECT_THAT(check("engines: [{optimizer: false}]\nprogram: [train]\n", "0.5.0"),
              HasSubstr("0.5.7 brought it"));
}

}  // namespace
}  // namespace zero3::sim
