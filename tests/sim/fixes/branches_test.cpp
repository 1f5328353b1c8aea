// What a forward leaves out of another, and the programs that a fix is tried on.
#include "sim/fixes/branches.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/fixes/saves.h"
#include "sim/fixes/variations.h"
#include "sim/short_form.h"
#include "tests/sim/scenario_samples.h"

namespace zero3::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Experiment short_form(const std::string& program, int ranks = 1) {
  ShortFormOptions options;
  options.ranks = ranks;
  return parse_short_form(program, options);
}

const std::string kExperts =
    "zero3sim: 1\n"
    "model:\n"
    "  children:\n"
    "    embed: Linear(4, 4)\n"
    "    block: {type: Block, children: {a: \"Linear(4, 4)\", b: \"Linear(4, 4)\", c: \"Linear(4, 4)\"}}\n"
    "    head: Linear(4, 2)\n";

std::vector<std::string> whats(const Variations& variations) {
  std::vector<std::string> whats;
  for (const Variation& one : variations.programs) whats.push_back(one.what);
  return whats;
}

TEST(Branches, LeaveCallsOutOfTheLongestForward) {
  const Experiment experiment = short_form("t:ABC t:ABC t:AC");
  const std::vector<ForwardBranch> branches = branches_of(experiment);
  ASSERT_EQ(branches.size(), 1U);
  EXPECT_EQ(names_of(branches[0].plan, experiment.model), "A C");
  EXPECT_EQ(names_of(branches[0].whole, experiment.model), "A B C");
  EXPECT_THAT(branches[0].left_out[0].calls, ElementsAre(1U));
}

TEST(Branches, AreNoneWhereCallsAreReordered) {
  EXPECT_THAT(branches_of(short_form("t:ABC t:ACB")), IsEmpty());
  EXPECT_THAT(branches_of(short_form("t:ABC t:ABC")), IsEmpty());
}

// Two draws of experts: neither forward is the whole, both are branches of what they have together.
TEST(Branches, OfTwoThatEachLeaveSomethingOut) {
  const Experiment experiment = short_form("t:ABD t:ACD");
  const std::vector<ForwardBranch> branches = branches_of(experiment);
  ASSERT_EQ(branches.size(), 2U);
  EXPECT_EQ(names_of(branches[0].whole, experiment.model), "A B C D");
  EXPECT_EQ(branches[0].whole, branches[1].whole);
}

TEST(Branches, InsideAModule) {
  const Scenario file = scenario(
      kExperts + "program: [{train: \"embed block[a b c] head\"}, {train: \"embed block[a c] head\"}]\n");
  const Experiment experiment = file.experiment();
  const std::vector<ForwardBranch> branches = branches_of(experiment);
  ASSERT_EQ(branches.size(), 1U);
  EXPECT_THAT(branches[0].left_out[0].path, ElementsAre(1U));
  EXPECT_THAT(branches[0].left_out[0].calls, ElementsAre(1U));
  EXPECT_THAT(whats(variations_of(experiment)), ElementsAre("", "without block.a", "without block.c"));
}

TEST(Branches, OnOneRankOnly) {
  const Experiment experiment = scenario(kThreeLayers +
                                         "ranks: 2\nprogram:\n  - train\n"
                                         "  - {when: {rank: [1]}, do: [train: fc1 fc2], else: [train]}\n")
                                    .experiment();
  EXPECT_THAT(whats(variations_of(experiment)), ElementsAre("", "without fc1", "without fc2"));
}

TEST(Variations, LeaveOutAsManyNeighboursAtEachPlace) {
  const Experiment experiment = short_form("t:ABCD t:AD");
  const Variations variations = variations_of(experiment);
  EXPECT_THAT(whats(variations), ElementsAre("", "without A B", "without C D"));
  EXPECT_EQ(forwards_of(variations.programs[1].experiment), "A B C D\nC D\n");
  EXPECT_EQ(variations.possible, 2U);
}

TEST(Variations, MoveASaveToEachPlace) {
  const Experiment experiment = short_form("t:AB f:AB w b s");
  const Variations variations = variations_of(experiment);
  EXPECT_THAT(whats(variations), ElementsAre("", "w at the start", "w after step 1 (t:AB)",
                                             "w after step 4 (b)", "w after step 5 (s)"));
  const Program& last = variations.programs.back().experiment.rank_programs[0];
  EXPECT_EQ(last.back().text, "w");
  EXPECT_EQ(last.size(), 5U);
  EXPECT_EQ(variations_of(experiment, false).programs.size(), 1U);
}

TEST(Variations, MoveAContextWithWhatIsInIt) {
  const Experiment experiment =
      scenario(kThreeLayers + "program: [train, {gather: [fc1.weight], do: [save_checkpoint]}, train]\n")
          .experiment();
  const std::vector<StatementRange> saves = saves_of(experiment.rank_programs[0]);
  ASSERT_EQ(saves.size(), 1U);
  EXPECT_EQ(saves[0], (StatementRange{1, 4}));
  EXPECT_THAT(whats(variations_of(experiment)),
              ElementsAre("", "gather: fc1.weight at the start", "gather: fc1.weight after step 5 (train)"));
}

TEST(Variations, AreCutWhereThereAreTooMany) {
  std::string program = "f:AB";
  for (int i = 0; i < 300; ++i) program += i % 2 == 0 ? " b" : " s";
  const Variations variations = variations_of(short_form(program + " w"));
  EXPECT_EQ(variations.programs.size(), kMaxVariations + 1);
  EXPECT_EQ(variations.possible, 301U);
}

TEST(Places, AfterStepsAreThoseWithNothingUnderWay) {
  const Experiment experiment = short_form("f:AB b s t:AB");
  EXPECT_THAT(places_after_steps(experiment.rank_programs[0], 1),
              ElementsAre(true, false, false, true, true));
  EXPECT_THAT(places_after_steps(experiment.rank_programs[0], 2),
              ElementsAre(true, false, false, false, true));
}

}  // namespace
}  // namespace zero3::sim
