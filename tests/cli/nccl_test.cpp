// --backend nccl, its code as it is, on a fake CUDA and NCCL (tests/fake_cuda): what it does is what virtual ranks do,
// and what goes wrong with GPUs is told by the rank that knows. Real GPUs: scripts/check-gpu.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/jobs.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kFake = "zero3sim_fake_nccl";

// On so many ranks, in an environment of the fake: "ZERO3_FAKE_CUDA_GPUS=1".
Outcome on_gpus(const std::string& ranks, const std::string& arguments, const std::string& environment = "",
                int timeout_s = 60) {
  const std::string exports = environment.empty() ? "" : "export " + environment + "\n";
  return shell(exports + kMpirun + ranks + " " + kFake + " " + arguments + " --backend nccl", timeout_s);
}

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  }
};

// All that does not depend on the backend.
json common_part(const std::string& reports) {
  json all = json::parse(reports);
  for (json& one : all) {
    one.erase("reproduce");
    one.erase("devices");
  }
  return all;
}

std::string without_devices(const std::string& text) {
  std::string kept;
  for (const std::string& line : lines_of(without_reproducer(text)))
    if (line.find("device memory:") == std::string::npos) kept += line + "\n";
  return kept;
}

struct PartOfTheLibrary {
  std::string release;
  std::string ranks;
  size_t of_each;  // one scenario
};

class NcclLibrary : public ::testing::TestWithParam<PartOfTheLibrary> {};

TEST_P(NcclLibrary, HasTheEventsOfVirtualRanks) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const auto& [release, ranks, of_each] = GetParam();
  const std::vector<std::string> files = running(release, ranks, of_each);
  ASSERT_GT(files.size(), 30U);
  const Folder virtual_ranks;
  const Folder gpus;
  const std::string run =
      joined(files) + " --format json --deepspeed " + release + " --ranks " + ranks + " --trace ";
  const Outcome expected = shell("zero3sim run" + run + shell_quoted(virtual_ranks.path("")));
  const Outcome outcome = on_gpus(ranks, "run" + run + shell_quoted(gpus.path("")), "", 300);
  ASSERT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
  EXPECT_TRUE(common_part(outcome.out) == common_part(expected.out));
  ASSERT_EQ(gpus.names(), virtual_ranks.names());
  for (const std::string& name : virtual_ranks.names())
    EXPECT_EQ(read_file(gpus.path(name)), read_file(virtual_ranks.path(name))) << name;
}

// A release of each coordinator, and the newest; scripts/check-gpu runs all on all.
INSTANTIATE_TEST_SUITE_P(, NcclLibrary,
                         ::testing::Values(PartOfTheLibrary{"0.5.10", "2", 3},
                                           PartOfTheLibrary{"0.9.5", "4", 1},
                                           PartOfTheLibrary{"0.19.8", "2", 3}),
                         [](const auto& one) {
                           std::string name = "v" + one.param.release + "_on_" + one.param.ranks;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

class NcclDivergence : public ::testing::TestWithParam<const char*> {};

// What ranks that differ come to does not depend on what NCCL would make of it: it never gets to see it.
TEST_P(NcclDivergence, IsToldAsOfVirtualRanks) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const std::string run = std::string("run scenarios/rank-divergence/") + GetParam() + ".yaml";
  const Outcome expected = shell("zero3sim " + run);
  const Outcome outcome = on_gpus("2", run + " --timeout 3");
  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
  EXPECT_EQ(without_devices(outcome.out), without_devices(expected.out));
}

INSTANTIATE_TEST_SUITE_P(, NcclDivergence,
                         ::testing::Values("rank-ends-early", "unequal-sizes", "equal-size-mix-up",
                                           "equal-size-other-order", "one-rank-raises", "gather-on-one-rank",
                                           "save-on-rank-0-only"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(Nccl, RepeatsARunByTheLineItPrints) {
  const Outcome outcome = on_gpus("2", "try 't:ABC t:AC' --deepspeed 0.15.2");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_EQ(reproducer(outcome.out),
            "mpirun -np 2 zero3sim try 't:ABC t:AC' --deepspeed 0.15.2 --ranks 2 --seed 0 --backend nccl "
            "--timeout 30");
}

// Every element is a word of 4 bytes, and what is live in the model is held on the GPU.
TEST_F(Nccl, ReportsDeviceMemoryBesideTheModelsCount) {
  const Outcome outcome =
      on_gpus("2", "run scenarios/dynamic-graphs/deepspeed-5828.yaml --deepspeed 0.15.2 --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json devices = json::parse(outcome.out).at("devices");
  ASSERT_EQ(devices.size(), 2U);
  for (size_t rank = 0; rank < 2; ++rank) {
    const json& device = devices.at(rank);
    EXPECT_EQ(device.at("rank"), rank);
    EXPECT_EQ(device.at("gpu"), rank) << "one GPU a rank";
    const auto peak_bytes = device.at("peak_bytes").get<int64_t>();
    EXPECT_GT(device.at("peak_live_numel").get<int64_t>(), 0);
    EXPECT_GE(peak_bytes, 4 * device.at("peak_live_numel").get<int64_t>());
    EXPECT_GE(device.at("driver_peak_bytes").get<int64_t>(), peak_bytes + (2 << 20))
        << "two communicators of the fake take a MiB each";
  }
  const Outcome text = on_gpus("2", "run scenarios/dynamic-graphs/deepspeed-5828.yaml --deepspeed 0.15.2");
  EXPECT_THAT(text.out, HasSubstr("  device memory: rank "));
  EXPECT_THAT(text.out, HasSubstr(" live elements, "));
}

// DeepSpeed lets two fetch events be outstanding; the next wait blocks its host until the oldest has happened. Events
// happen late where every collective of a rank begins late.
TEST_F(Nccl, LetsTwoFetchEventsBeOutstanding) {
  const std::string run =
      "try 't:ABCDEFGH t:ABCDEFGH' --deepspeed 0.15.2 --format json --persist 0 --prefetch 0";
  const Outcome outcome = on_gpus("2", run, "ZERO3_FAKE_NCCL='delay:rank=1,collective=all,ms=10'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json devices = json::parse(outcome.out).at("devices");
  ASSERT_EQ(devices.size(), 2U);
  for (const json& device : devices) {
    EXPECT_EQ(device.at("peak_fetch_events"), 2);
    EXPECT_GT(device.at("blocked_fetches").get<int>(), 0);
  }
}

// Its host waits for the GPU in every wait: nothing is ever outstanding.
TEST_F(Nccl, WaitsOnTheHostWhereTheReleaseDoes) {
  const std::string run = "try 't:ABCDEFGH t:ABCDEFGH' --deepspeed 0.5.10 --format json --persist 0";
  const Outcome outcome = on_gpus("2", run, "ZERO3_FAKE_NCCL='delay:rank=1,collective=all,ms=10'");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const json devices = json::parse(outcome.out).at("devices");
  ASSERT_EQ(devices.size(), 2U);
  for (const json& device : devices) EXPECT_EQ(device.at("peak_fetch_events"), 0);
}

struct GpuTrouble {
  const char* name;
  const char* environment;
  const char* command;
  int exit_code;
  std::vector<std::string> told;
};

class NcclTrouble : public ::testing::TestWithParam<GpuTrouble> {};

TEST_P(NcclTrouble, IsToldByTheRankThatKnowsAndEndsAll) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const GpuTrouble& trouble = GetParam();
  const std::string marker = std::string("nccl-") + trouble.name;
  const Outcome outcome =
      on_gpus("3", std::string(trouble.command) + " --timeout 3 --trace no-such-folder/" + marker,
              trouble.environment);
  EXPECT_EQ(outcome.exit_code, trouble.exit_code) << outcome.errors;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& told : trouble.told) EXPECT_THAT(outcome.errors, HasSubstr(told));
  EXPECT_EQ(orphans(marker).out, "0\n");
}

constexpr const char* kTry = "try 't:ABC t:ABC' --deepspeed 0.15.2";

INSTANTIATE_TEST_SUITE_P(
    , NcclTrouble,
    ::testing::Values(
        GpuTrouble{"NoGpu",
                   "ZERO3_FAKE_CUDA_GPUS=0",
                   kTry,
                   5,
                   {"error: --backend nccl finds no GPU here (cudaErrorNoDevice: no CUDA-capable device"}},
        GpuTrouble{
            "FewerGpusThanRanks",
            "ZERO3_FAKE_CUDA_GPUS=2",
            kTry,
            2,
            {"rank 2: error: no GPU for rank 2: its node has 2 of them for 3 ranks\n  one GPU a rank"}},
        GpuTrouble{"GpuTooOldForCuda13",
                   "ZERO3_FAKE_CUDA_VERSION=13000 ZERO3_FAKE_CUDA_CAPABILITY=70",
                   kTry,
                   5,
                   {"GPU 1 has compute capability 7.0, CUDA 13 wants 7.5: build with CUDA 12"}},
        GpuTrouble{"OutOfMemoryOnOneRank",
                   "ZERO3_FAKE_CUDA_MEMORY=1:2098000",
                   "run scenarios/dynamic-graphs/deepspeed-5828.yaml --deepspeed 0.15.2",
                   5,
                   {"error: rank 1: out of memory on GPU 1: ", " bytes wanted, ", " free"}},
        GpuTrouble{"TypeThatTheGpuLacks",
                   "ZERO3_FAKE_NCCL='refuse:rank=1,collective=2'",
                   kTry,
                   5,
                   {"error: rank 1: NCCL failed in collective 2 of rank 1 on GPU 1, ",
                    " of 4-byte integers: invalid argument (this GPU has no such type)"}},
        GpuTrouble{"ErrorOfTheCommunicator",
                   "ZERO3_FAKE_NCCL='error:rank=2,collective=3'",
                   kTry,
                   5,
                   {"error: rank 2: NCCL failed in collective ", ": internal error (injected)"}},
        GpuTrouble{"CollectiveThatNeverEnds",
                   "ZERO3_FAKE_NCCL='stall:rank=0,collective=1'",
                   kTry,
                   5,
                   {"does not come to the end of what NCCL has begun within --timeout"}},
        GpuTrouble{"DataThatArrivesWrong",
                   "ZERO3_FAKE_NCCL='corrupt:rank=1,collective=0'",
                   kTry,
                   5,
                   {"the data that reached rank 1 is not what the ranks' collectives say"}},
        GpuTrouble{"KilledRank",
                   "",
                   "try 't:ABC t:ABC' --deepspeed 0.15.2 --fault kill:rank=2,collective=7",
                   kKilled,
                   {"rank 2: killed by --fault at its collective 7, ", "process rank 2"}}),
    [](const auto& one) { return std::string(one.param.name); });

// NCCL is slow to begin, and yet no wait is over: a delay alone changes nothing.
TEST_F(Nccl, OutlastsADelay) {
  const Outcome expected = shell("zero3sim try 't:ABC t:ABC' --deepspeed 0.15.2 --ranks 3");
  const Outcome outcome = on_gpus("3", "try 't:ABC t:ABC' --deepspeed 0.15.2",
                                  "ZERO3_FAKE_NCCL='delay:rank=0,collective=2,ms=300'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(without_devices(outcome.out), without_devices(expected.out));
}

// A launcher that shows each process its own GPU alone.
TEST_F(Nccl, TakesTheOneGpuThatALauncherShowsEachProcess) {
  const Outcome outcome = on_gpus("2", "try t:AB", "ZERO3_FAKE_CUDA_GPUS=1 CUDA_VISIBLE_DEVICES=3");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST_F(Nccl, PassesScriptsCheckGpu) {
  const Folder folder;
  const std::string program =
      std::string(ZERO3SIM_EXECUTABLE).substr(0, std::string(ZERO3SIM_EXECUTABLE).rfind('/'));
  const std::string report = folder.path("report");
  const Outcome outcome =
      shell("export GPUS=2 RELEASES=0.9.5 SCENARIOS='scenarios/dynamic-graphs/*.yaml' ZERO3SIM=" + program +
                "/zero3sim_fake_nccl\nBENCH='" + program +
                "/zero3sim_fake_nccl_all_gather --min 64K --max 256K --rounds 3' "
                "scripts/check-gpu " +
                shell_quoted(report),
            300);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.errors;
  EXPECT_THAT(read_file(report), AllOf(HasSubstr(" passed, 0 failed, "), HasSubstr("ncclAllGather"),
                                       HasSubstr("  device memory: rank "), Not(HasSubstr("FAILED"))));
}

TEST(NcclAbsent, SaysHowToGetIt) {
  const Outcome outcome = shell("zero3sim try t:A --backend nccl");
  if (outcome.exit_code == 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.errors,
              ::testing::AnyOf(HasSubstr("docker/install-deps.sh"), HasSubstr("nvidia-smi -L")));
}

}  // namespace
}  // namespace zero3::cli_test
