// --backend mpi: what real processes do is what virtual ranks do, and what goes wrong in a job is told.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/backend_unavailable.h"
#include "sim/backends/backend.h"
#include "sim/cli/common.h"
#include "sim/scenario/scenario.h"
#include "tests/cli/jobs.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  }
};

class MpiLibrary : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(MpiLibrary, HasTheEventsOfVirtualRanks) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const auto [release, ranks] = GetParam();
  const std::vector<std::string> files = running(release, ranks);
  ASSERT_GT(files.size(), 40U);
  const Folder folder;
  const Folder virtual_ranks;
  const Folder processes;
  const std::string run = std::string("zero3sim run") + joined(files) + " --format json --deepspeed " +
                          release + " --ranks " + ranks + " --trace ";
  const Outcome expected = shell(run + shell_quoted(virtual_ranks.path("")));
  const Outcome outcome =
      shell(kMpirun + ranks + " " + run + shell_quoted(processes.path("")) + " --backend mpi", 300);
  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
  EXPECT_TRUE(without_reproducer(outcome.out) == without_reproducer(expected.out));
  ASSERT_EQ(processes.names(), virtual_ranks.names());
  for (const std::string& name : virtual_ranks.names())
    EXPECT_EQ(read_file(processes.path(name)), read_file(virtual_ranks.path(name))) << name;
}

// A release of each coordinator, and the newest.
INSTANTIATE_TEST_SUITE_P(, MpiLibrary,
                         ::testing::Values(std::pair("0.5.10", "2"), std::pair("0.9.5", "4"),
                                           std::pair("0.19.8", "2"), std::pair("0.19.8", "8")),
                         [](const auto& one) {
                           std::string name = std::string("v") + one.param.first + "_on_" + one.param.second;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

class MpiDivergence : public ::testing::TestWithParam<std::string> {};

// Ranks that really wait for ever, or take one another's data.
TEST_P(MpiDivergence, IsToldAsOfVirtualRanks) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const int ranks = sim::load_scenario(GetParam()).ranks;
  const std::string run = "zero3sim run " + GetParam();
  const Outcome expected = shell(run);
  const Outcome outcome = shell(kMpirun + std::to_string(ranks) + " " + run + " --backend mpi --timeout 3");
  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
  EXPECT_EQ(without_reproducer(outcome.out), without_reproducer(expected.out));
}

INSTANTIATE_TEST_SUITE_P(, MpiDivergence,
                         ::testing::ValuesIn(sim::cli::scenario_files({"scenarios/rank-divergence"})),
                         [](const auto& one) {
                           std::string name = std::filesystem::path(one.param).stem().string();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

struct LayersOnBranches {
  std::string ranks;
  std::string p;
  std::string q;
};

std::string scenario_of(const LayersOnBranches& layers) {
  return "zero3sim: 1\nname: branches\nranks: " + layers.ranks +
         "\nmodel:\n  children:\n    a: Linear(8, 8)\n    p: Linear(" + layers.p +
         ", bias=False)\n    q: Linear(" + layers.q +
         ", bias=False)\n"
         "deepspeed_config: {zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}}\n"
         "program:\n  - when: {rank: [1]}\n    do: [{train: a q}]\n    else: [{train: a p}]\n";
}

// Layers of another size than a message may have that is sent unasked: Open MPI's own collectives write where they
// should not. And three ranks, of which two mix one gradient into the third's.
TEST_F(Mpi, TellsBranchesOfLayersAsOfVirtualRanks) {
  const Folder folder;
  for (const LayersOnBranches& layers :
       {LayersOnBranches{"2", "64, 64", "64, 8"}, LayersOnBranches{"2", "8, 64", "64, 64"},
        LayersOnBranches{"4", "512, 512", "512, 64"}, LayersOnBranches{"3", "8, 8", "8, 8"}}) {
    const std::string run = "zero3sim run " + folder.write("branches.yaml", scenario_of(layers));
    const Outcome expected = shell(run);
    const Outcome outcome = shell(kMpirun + layers.ranks + " " + run + " --backend mpi --timeout 3");
    EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
    EXPECT_EQ(without_reproducer(outcome.out), without_reproducer(expected.out));
    EXPECT_THAT(expected.out, HasSubstr("ranks part at step 1"));
  }
}

TEST_F(Mpi, RepeatsARunByTheLineItPrints) {
  const Outcome outcome = shell(kMpirun + "2 zero3sim try 't:ABC t:AC' --deepspeed 0.15.2 --backend mpi");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(reproducer(outcome.out),
            "mpirun -np 2 zero3sim try 't:ABC t:AC' --deepspeed 0.15.2 --ranks 2 --seed 0 --backend mpi "
            "--timeout 30");
}

struct Killed {
  int rank;
  int collective;
};

class MpiKill : public ::testing::TestWithParam<Killed> {};

TEST_P(MpiKill, EndsTheJobAndNamesTheRank) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const auto [rank, collective] = GetParam();
  const std::string marker = "killed-" + std::to_string(rank) + "-" + std::to_string(collective);
  const Outcome outcome = shell(
      kMpirun + "3 zero3sim try 't:ABC t:ABC' --deepspeed 0.15.2 --backend mpi --trace no-such-folder/" +
      marker + " --fault kill:rank=" + std::to_string(rank) + ",collective=" + std::to_string(collective));
  EXPECT_EQ(outcome.exit_code, kKilled);
  EXPECT_THAT(outcome.errors,
              HasSubstr("rank " + std::to_string(rank) + ": killed by --fault at its collective " +
                        std::to_string(collective)));
  EXPECT_THAT(outcome.errors, HasSubstr("process rank " + std::to_string(rank)));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(orphans(marker).out, "0\n");
}

INSTANTIATE_TEST_SUITE_P(, MpiKill,
                         ::testing::Values(Killed{0, 0}, Killed{1, 3}, Killed{2, 7}, Killed{0, 12}),
                         [](const auto& one) {
                           return "rank_" + std::to_string(one.param.rank) + "_collective_" +
                                  std::to_string(one.param.collective);
                         });

TEST_F(Mpi, EndsWhenAProcessIsKilledFromOutside) {
  const Outcome outcome =
      shell(kMpirun +
            "2 zero3sim run scenarios/rank-divergence/rank-ends-early.yaml --backend mpi --timeout 50 "
            "--trace no-such-folder/by-hand &\n"
            "job=$!\n"
            "until [ \"$(pgrep -fc '^zero3sim run.*[n]o-such-folder/by-hand')\" = 2 ]; do sleep 0.1; done\n"
            "sleep 1; kill -9 $(pgrep -f '^zero3sim run.*[n]o-such-folder/by-hand' | tail -1)\n"
            "wait $job");
  EXPECT_EQ(outcome.exit_code, kKilled);
  EXPECT_THAT(outcome.errors, HasSubstr("exited on signal 9"));
  EXPECT_EQ(orphans("by-hand").out, "0\n");
}

struct Wrong {
  const char* name;
  const char* command;
  const char* told;
};

class MpiBadInput : public ::testing::TestWithParam<Wrong> {};

TEST_P(MpiBadInput, IsToldOnceAndEndsAll) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const Outcome outcome = shell(kMpirun + GetParam().command);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.errors;
  EXPECT_EQ(outcome.out, "");
  const size_t place = outcome.errors.find(GetParam().told);
  ASSERT_NE(place, std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find(GetParam().told, place + 1), std::string::npos) << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(
    , MpiBadInput,
    ::testing::Values(
        Wrong{"RanksUnlikeTheJobs", "2 zero3sim try t:AB --ranks 4 --backend mpi",
              "error: a program of 4 ranks in a job of 2 processes\n  mpirun -np 4 zero3sim"},
        Wrong{"OtherPrograms",
              "1 zero3sim try t:AB --ranks 2 --backend mpi : -np 1 zero3sim try t:AC --ranks 2 --backend mpi",
              "error: rank 1 is not about to do what rank 0 is"},
        Wrong{"OtherReleases",
              "1 zero3sim try t:AB --deepspeed 0.9.5 --backend mpi : -np 1 zero3sim try t:AB --backend mpi",
              "error: rank 1 is not about to do what rank 0 is"},
        Wrong{"OfOneRank", "1 zero3sim try t:AB --backend mpi : -np 1 zero3sim try 't:A?' --backend mpi",
              "rank 1: program:1:4: error: unknown module '?'"},
        Wrong{"OfAllRanks", "2 zero3sim try 't:A?' --backend mpi", "program:1:4: error: unknown module '?'"},
        Wrong{"TraceThatCannotBeWritten", "2 zero3sim try t:A --backend mpi --trace no-such-folder/trace",
              "no-such-folder/trace"},
        Wrong{"FaultThatNeverHappens", "2 zero3sim try t:A --backend mpi --fault kill:rank=1,collective=99",
              "--fault never happened: rank 1 issues"},
        Wrong{"FaultOfNoForm", "2 zero3sim try t:A --backend mpi --fault kill:rank=1",
              "--fault:1:1: error: no fault of"},
        Wrong{"FaultOfNoRank", "2 zero3sim try t:A --backend mpi --fault kill:rank=7,collective=0",
              "--fault never happened: there are 2 ranks"}),
    [](const auto& one) { return one.param.name; });

TEST(MpiFault, HasOneForm) {
  const Outcome outcome = shell("zero3sim try t:A --backend mpi --fault kill:rank=1");
  EXPECT_EQ(outcome.exit_code, has_mpi() ? 2 : 5);
  if (has_mpi()) {
    EXPECT_THAT(outcome.errors, HasSubstr("kill:rank=2,collective=7"));
  }
  EXPECT_EQ(shell("zero3sim try t:A --fault kill:rank=0,collective=0").exit_code, 2)
      << "virtual ranks die of nothing";
}

TEST(MpiAbsent, SaysHowToGetIt) {
  if (has_mpi()) GTEST_SKIP() << "built with MPI";
  const Outcome outcome = shell("zero3sim run scenarios --backend mpi");
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.errors, HasSubstr("libopenmpi-dev"));
}

}  // namespace
}  // namespace zero3::cli_test
