// Ranks that differ: where they part, what they disagree on, who waits for whom, whose data is whose.
//
// What real releases did is in scenarios/rank-divergence, held against gloo by zero3sim verify; the mixed shards were
// read on v0.15.2 with layers filled with 1, 2 and 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/release.h"
#include "sim/mixed_data.h"
#include "sim/parting.h"
#include "sim/short_form.h"
#include "sim/simulate.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Experiment experiment_of(const std::vector<std::string>& programs, int64_t prefetch = 0) {
  ShortFormOptions options;
  options.ranks = static_cast<int>(programs.size());
  options.prefetch_bucket_numel = prefetch;
  Experiment experiment = parse_short_form(programs.front(), options);
  for (size_t rank = 1; rank < programs.size(); ++rank)
    experiment.rank_programs[rank] = parse_program(programs[rank], experiment.model);
  return experiment;
}

SimulationResult run(const std::string& release, const std::vector<std::string>& programs) {
  return simulate(experiment_of(programs), {.release = *Release::parse(release), .watch = {}});
}

// eras.md section 11, and read anew: rank 0's B holds C's second shard, rank 1's C holds B's first.
TEST(RankMatching, EqualSizesMixShards) {
  for (const char* release : {"0.15.2", "0.19.8"}) {
    const SimulationResult result = run(release, {"t:ABC t:ABC t:ABC", "t:ABC t:ABC t:AC"});
    ASSERT_FALSE(result.mix_ups.empty()) << release;
    const std::vector<MixedPiece>& pieces = result.mix_ups.front().pieces;
    ASSERT_EQ(pieces.size(), 2U);
    EXPECT_THAT(pieces[0].ranks, ElementsAre(0));
    EXPECT_EQ(pieces[0].name + " " + pieces[0].of_name, "B.weight C.weight");
    EXPECT_EQ(pieces[0].first, 32);
    EXPECT_EQ(pieces[0].end, 64);
    EXPECT_EQ(pieces[0].from_rank, 1);
    EXPECT_THAT(pieces[1].ranks, ElementsAre(1));
    EXPECT_EQ(pieces[1].name + " " + pieces[1].of_name, "C.weight B.weight");
    EXPECT_EQ(pieces[1].first, 0);
    EXPECT_EQ(pieces[1].end, 32);
  }
}

TEST(RankMatching, FirstDisagreementHasBothSides) {
  const SimulationResult result = run("0.15.2", {"t:ABC t:ABC t:ABC", "t:ABC t:ABC t:AC"});
  ASSERT_TRUE(result.first_disagreement);
  const std::vector<Side>& sides = result.first_disagreement->sides;
  ASSERT_EQ(sides.size(), 2U);
  EXPECT_EQ(sides[0].collective->text(), "all-gather of B.weight (32 elements a rank)");
  EXPECT_EQ(sides[1].collective->text(), "all-gather of C.weight (32 elements a rank)");
  EXPECT_EQ(sides[0].collective->statement, 2U);
}

// Seen on v0.15.2: rank 0 waits for the norm in one process group, rank 1 in a gather of the other.
TEST(RankMatching, StepLeftOutWaitsInAnotherGroup) {
  const SimulationResult result = run("0.15.2", {"t:ABC f:ABC b s t:ABC", "t:ABC f:ABC b t:ABC"});
  ASSERT_EQ(result.waits.size(), 2U);
  EXPECT_EQ(result.waits[0].collective.text(), "all-reduce of the gradients' norm");
  EXPECT_EQ(result.waits[0].collective.group, ProcessGroup::kDataParallel);
  EXPECT_EQ(result.waits[1].collective.text(), "all-gather of A.weight (32 elements a rank)");
  EXPECT_EQ(result.waits[1].collective.group, ProcessGroup::kWorld);
  EXPECT_EQ(result.waits[0].obstacle, Obstacle::kAbsent);
  EXPECT_THAT(result.mix_ups, IsEmpty());
}

// From v0.19.3 on both are in one group, and meet as other operations.
TEST(RankMatching, StepLeftOutInOneGroup) {
  const SimulationResult result = run("0.19.8", {"t:ABC f:ABC b s t:ABC", "t:ABC f:ABC b t:ABC"});
  ASSERT_EQ(result.waits.size(), 2U);
  EXPECT_EQ(result.waits[0].obstacle, Obstacle::kOtherOperation);
}

// Seen on v0.15.2 with four ranks: each raises with its own number, rank 0 raises nothing.
TEST(RankMatching, EveryRanksDisagreementNamesItself) {
  const SimulationResult result = run("0.15.2", {"e:AB t:ABC", "e:AB t:ABC", "e:AC t:ABC", "e:AC t:ABC"});
  EXPECT_EQ(result.ranks[2].failure->text,
            "disagreement between rank0 and rank2: rank0: [0, 1, 2], rank2: [0, 1, 3]");
  EXPECT_EQ(result.ranks[3].failure->text,
            "disagreement between rank0 and rank3: rank0: [0, 1, 2], rank3: [0, 1, 3]");
  EXPECT_EQ(result.ranks[0].failure->kind, FailureKind::kHang);
  EXPECT_EQ(result.ranks[1].failure->kind, FailureKind::kHang);
  EXPECT_EQ(result.ranks[3].like_rank, 2);
}

TEST(RankMatching, DisagreementInBothWordings) {
  const std::vector<std::string> programs = {"e:AB e:AB t:ABC", "e:AC e:AC t:ABC"};
  EXPECT_THAT(run("0.17.5", programs).ranks[1].failure->text,
              HasSubstr("disagreement between rank0 and rank1: rank0: [0, 1, 2], rank1: [0, 1, 3]"));
  EXPECT_EQ(run("0.17.6", programs).ranks[1].failure->text,
            "Detected a disagreement on list contents between rank0 and rank1: \n list length: 3\n rank0: "
            "[0, 1, 2] \n rank1: [0, 1, 3]");
}

// A rank that launched more than it has waited for is waited for no longer than for what it launched.
TEST(RankMatching, WhoEndsIsWaitedFor) {
  const SimulationResult result = run("0.15.2", {"t:ABC t:ABC", "t:ABC"});
  ASSERT_EQ(result.waits.size(), 1U);
  EXPECT_EQ(result.waits[0].rank, 0);
  EXPECT_THAT(result.waits[0].for_ranks, ElementsAre(1));
  EXPECT_THAT(result.ranks[0].failure->text, HasSubstr("rank 1 has ended its program"));
  EXPECT_FALSE(result.ranks[1].failure);
}

TEST(RankMatching, CheckpointsMeetInBarriers) {
  const SimulationResult result = run("0.15.2", {"t:ABC c t:ABC", "t:ABC t:ABC"});
  ASSERT_EQ(result.waits.size(), 2U);
  EXPECT_EQ(result.waits[0].collective.text(), "barrier of save_checkpoint");
  EXPECT_EQ(result.waits[0].obstacle, Obstacle::kOtherOperation);
}

// One gather of three ranks' parameters of other lengths: pieces end where either parameter ends.
TEST(MixedData, PiecesFollowBothLayouts) {
  const Collective left{
      .ds_ids = {1, 2}, .names = {"a", "b"}, .shards = {2, 4}, .ds_numels = {4, 7}, .shard_numel = 6};
  const Collective right{
      .ds_ids = {3, 4}, .names = {"c", "d"}, .shards = {4, 2}, .ds_numels = {8, 4}, .shard_numel = 6};
  const std::vector<MixedPiece> pieces = mixed_pieces({{{0}, left, ""}, {{1}, right, ""}});
  const auto text = [](const MixedPiece& piece) {
    return piece.name + "[" + std::to_string(piece.first) + "," + std::to_string(piece.end) +
           ")=" + piece.of_name;
  };
  std::vector<std::string> texts;
  for (const MixedPiece& piece : pieces) texts.push_back(text(piece));
  // b has 7 elements: the last of rank 1's shard is padding.
  EXPECT_THAT(texts, ElementsAre("a[2,4)=c", "b[4,6)=c", "b[6,7)=d", "c[0,2)=a", "c[2,4)=b", "d[0,2)=b"));
}

std::vector<int> started(const std::vector<std::string>& programs) {
  return find_parting(experiment_of(programs))->started;
}

TEST(Parting, NamesTheRanksThatLeft) {
  EXPECT_FALSE(find_parting(experiment_of({"t:ABC", "t:ABC"})));
  EXPECT_THAT(started({"t:ABC t:AC", "t:ABC t:ABC", "t:ABC t:ABC"}), ElementsAre(0)) << "the fewer";
  EXPECT_THAT(started({"t:ABC t:ABC", "t:ABC"}), ElementsAre(1)) << "ends first";
  EXPECT_THAT(started({"t:ABC f:ABC b s t:ABC", "t:ABC f:ABC b t:ABC"}), ElementsAre(1))
      << "leaves out a step";
  EXPECT_THAT(started({"t:ABC t:ABC t:AC t:ABC", "t:ABC t:ABC t:ABC t:ABC"}), ElementsAre(0))
      << "not as before";
  EXPECT_THAT(started({"t:ABC c t:ABC", "t:ABC t:ABC"}), ElementsAre(0)) << "does more";
  EXPECT_THAT(started({"t:AB", "t:AC"}), ElementsAre(1)) << "held against rank 0";
}

}  // namespace
}  // namespace zero3::sim
