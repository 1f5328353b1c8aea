// --tensors torch: LibTorch's autograd fires hooks as the tape says, and training by partitions is training.
#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/cli/common.h"
#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Tensors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_tensors()) GTEST_SKIP() << "built without LibTorch";
  }
};

// Scenarios that the release has everything for.
std::vector<std::string> runnable(const std::string& release, const std::string& ranks) {
  std::vector<std::string> files;
  for (const std::string& file : sim::cli::scenario_files({"scenarios"})) {
    const Outcome outcome = shell("zero3sim run " + file + " --deepspeed " + release + " --ranks " + ranks);
    if (outcome.exit_code != 2) files.push_back(file);
  }
  return files;
}

class TensorsLibrary : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// The tape is a model of autograd, and here is autograd: same hooks, same order, same failures.
TEST_P(TensorsLibrary, HasTheEventsOfTheTape) {
  if (!has_tensors()) GTEST_SKIP() << "built without LibTorch";
  const auto [release, ranks] = GetParam();
  const std::vector<std::string> files = runnable(release, ranks);
  ASSERT_GT(files.size(), 40U);
  const Folder of_tape;
  const Folder of_torch;
  std::string run = "zero3sim run";
  for (const std::string& file : files) run += " " + shell_quoted(file);
  run += std::string(" --format json --deepspeed ") + release + " --ranks " + ranks + " --trace ";
  const Outcome expected = shell(run + shell_quoted(of_tape.path("")));
  const Outcome outcome = shell(run + shell_quoted(of_torch.path("")) + " --tensors torch", 300);
  EXPECT_EQ(outcome.exit_code, expected.exit_code) << outcome.errors;
  ASSERT_EQ(of_torch.names(), of_tape.names()) << outcome.errors;
  for (const std::string& name : of_tape.names())
    EXPECT_TRUE(read_file(of_torch.path(name)) == read_file(of_tape.path(name))) << name;
}

INSTANTIATE_TEST_SUITE_P(, TensorsLibrary,
                         ::testing::Values(std::pair("0.4.4", "1"), std::pair("0.5.10", "2"),
                                           std::pair("0.9.5", "2"), std::pair("0.15.2", "1"),
                                           std::pair("0.16.2", "2"), std::pair("0.19.8", "2")),
                         [](const auto& one) {
                           std::string name = std::string("v") + one.param.first + "_on_" + one.param.second;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

json report_of(const std::string& command) {
  const Outcome outcome = shell(command + " --format json --tensors torch", 120);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return json::parse(outcome.out);
}

using Training = std::tuple<const char*, const char*, const char*, const char*>;

class TensorsTraining : public ::testing::TestWithParam<Training> {};

// Padded partitions (8 x 8 weights on 3 ranks), a batch of its own for each rank, accumulation: to the bit.
TEST_P(TensorsTraining, IsThatOfAnUnpartitionedModel) {
  if (!has_tensors()) GTEST_SKIP() << "built without LibTorch";
  const auto [release, ranks, optimizer, accumulation] = GetParam();
  const json report = report_of(std::string("zero3sim try 't:ABC t:ABC t:ABC t:ABC' --deepspeed ") + release +
                                " --ranks " + ranks + " --optimizer " + optimizer + " --gas " + accumulation);
  ASSERT_EQ(report.at("tensors").size(), std::stoul(ranks));
  for (const json& rank : report.at("tensors")) {
    EXPECT_EQ(rank.at("no_reference"), nullptr);
    EXPECT_EQ(rank.at("updates"), 4 / std::stoi(accumulation));
    EXPECT_EQ(rank.at("unlike_weights"), json::array());
    ASSERT_EQ(rank.at("losses").size(), 4U);
    for (const json& loss : rank.at("losses")) EXPECT_EQ(loss.at("value"), loss.at("reference"));
    EXPECT_NE(rank.at("losses").front().at("value"), rank.at("losses").back().at("value"));
  }
}

INSTANTIATE_TEST_SUITE_P(, TensorsTraining,
                         ::testing::Combine(::testing::Values("0.5.10", "0.9.5", "0.19.8"),
                                            ::testing::Values("1", "2", "3"), ::testing::Values("sgd"),
                                            ::testing::Values("1", "2")),
                         [](const auto& one) {
                           std::string name = std::string("v") + std::get<0>(one.param) + "_" +
                                              std::get<1>(one.param) + "_ranks_" + std::get<2>(one.param) +
                                              "_" + std::get<3>(one.param);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// From v0.13.2 on Adam starts with the first batch (#5104).
INSTANTIATE_TEST_SUITE_P(Adam, TensorsTraining,
                         ::testing::Combine(::testing::Values("0.13.5", "0.19.8"),
                                            ::testing::Values("1", "3"), ::testing::Values("adam"),
                                            ::testing::Values("2")),
                         [](const auto& one) {
                           std::string name = std::string("v") + std::get<0>(one.param) + "_" +
                                              std::get<1>(one.param) + "_ranks";
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

struct RealRun {
  const char* release;
  int ranks;
  const char* program;
  const char* options;
  std::vector<std::vector<double>> losses;  // by rank
};

void expect_losses(const json& report, const RealRun& real) {
  ASSERT_EQ(report.at("tensors").size(), real.losses.size());
  for (size_t rank = 0; rank < real.losses.size(); ++rank) {
    const json& losses = report.at("tensors")[rank].at("losses");
    ASSERT_EQ(losses.size(), real.losses[rank].size());
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i].at("value").get<double>(), real.losses[rank][i], 2e-7)
          << real.release << " " << real.options << ", rank " << rank << ", forward " << i;
  }
}

// Printed by real releases with the same start, batches and optimizer, torch 1.13 and 2.15: six Linear(8, 8,
// bias=False), stage3_prefetch_bucket_size 0. A skipped layer gets an old gradient again (from v0.6.0), or none of what
// earlier micro-batches brought (v0.5.10); Adam's first update is its second (up to v0.13.1); gradients are clipped
// (v0.19.3).
TEST_F(Tensors, HaveTheLossesOfRealReleases) {
  const char* skips = "t:ABC t:AC t:ABC t:ABC";
  const std::vector<RealRun> runs = {
      {"0.5.10", 1, skips, "", {{0.992485225, 0.972312212, 0.940898657, 0.925538957}}},
      {"0.9.5", 1, skips, "", {{0.992485225, 0.972312212, 0.931444049, 0.91632992}}},
      {"0.15.2", 1, skips, "", {{0.992485166, 0.972312212, 0.931444049, 0.91632992}}},
      {"0.19.8", 1, skips, "", {{0.992485166, 0.980511963, 0.955213666, 0.950800538}}},
      {"0.19.8",
       2,
       skips,
       "",
       {{0.992485166, 0.980506182, 0.955186427, 0.950757623},
        {1.00145638, 0.988723695, 0.963715315, 0.931127906}}},
      {"0.19.8",
       2,
       skips,
       "--optimizer adam --gas 2",
       {{0.992485166, 0.99192971, 0.769997835, 0.779997945},
        {1.00145638, 1.00025988, 0.776866496, 0.76390475}}},
      {"0.15.2",
       2,
       skips,
       "--optimizer adam --gas 2",
       {{0.992485166, 0.99192971, 0.769997835, 0.779997945},
        {1.00145638, 1.00025988, 0.776866496, 0.76390475}}},
      {"0.9.5", 1, skips, "--optimizer adam --gas 2", {{0.992485225, 0.99192971, 0.822603285, 0.833301961}}},
      {"0.5.10",
       2,
       skips,
       "--optimizer adam --gas 2",
       {{0.992485225, 0.99192971, 0.874733865, 0.886126876},
        {1.00145638, 1.00025988, 0.882518888, 0.867813051}}},
      {"0.5.10", 1, skips, "--gas 2", {{0.992485225, 0.99192971, 0.969532847, 0.982183754}}},
      {"0.9.5", 1, skips, "--gas 2", {{0.992485225, 0.99192971, 0.964710236, 0.977297604}}},
      {"0.15.2",
       1,
       "t:ABC t:ABC t:AC t:ABC t:ABC",
       "--gas 2",
       {{0.992485166, 0.990519643, 0.970697522, 0.972429693, 0.937450886}}},
      {"0.5.10", 1, skips, "--gas 3", {{0.992485225, 0.99192971, 0.989099503, 0.975691974}}},
      {"0.5.10",
       1,
       "t:ABC t:AC t:AC t:AC t:ABC",
       "--gas 2",
       {{0.992485225, 0.99192971, 0.970683515, 0.983448386, 0.96117419}}},
  };
  for (const RealRun& real : runs) {
    expect_losses(report_of(std::string("zero3sim try '") + real.program + "' --prefetch 0 --deepspeed " +
                            real.release + " --ranks " + std::to_string(real.ranks) + " " + real.options),
                  real);
  }
}

std::string scenario(const std::string& config, const std::string& program) {
  return "zero3sim: 1\nname: values\nmodel:\n  children:\n    A: Linear(8, 8, bias=False)\n    B: Linear(8, "
         "8, "
         "bias=False)\n    C: Linear(8, 8, bias=False)\ndeepspeed_config: {" +
         config +
         "zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_prefetch_bucket_size: "
         "0, "
         "stage3_gather_16bit_weights_on_model_save: true}}\nprogram: [" +
         program + "]\nexpect: [{deepspeed: all, outcome: completes}]\n";
}

// v0.9.5 with gradient_clipping 0.5, as above.
TEST_F(Tensors, ClipAsTheConfigSays) {
  const Folder folder;
  const std::string file = folder.write(
      "clip.yaml",
      scenario("gradient_clipping: 0.5, ", "{train: A B C}, {train: A C}, {train: A B C}, {train: A B C}"));
  const RealRun real = {"0.9.5",
                        2,
                        "",
                        "gradient_clipping 0.5",
                        {{0.992485225, 0.935473859, 0.827285051, 0.763204157},
                         {1.00145638, 0.943247437, 0.834768116, 0.747642219}}};
  expect_losses(report_of("zero3sim run " + file + " --deepspeed 0.9.5 --ranks 2 --lr 0.1"), real);
  const Outcome outcome =
      shell("zero3sim run " + folder.write("bad.yaml", scenario("gradient_clipping: -1, ", "step")));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("gradient_clipping must be a number, 0 or more"));
}

// Biases, a weight that is no square, parameters that persist; by torch's Linear and by DeepSpeed's own (v0.19.8).
TEST_F(Tensors, TrainBiasesAndOddShapes) {
  const Folder folder;
  const std::string file = folder.write(
      "biases.yaml",
      "zero3sim: 1\nname: biases\nmodel: {children: {A: \"Linear(8, 8)\", B: \"Linear(16, 8)\", C: "
      "\"Linear(8, 8)\"}}\n"
      "deepspeed_config: {zero_optimization: {stage: 3, stage3_param_persistence_threshold: 10}}\n"
      "program: [{repeat: 3, do: [{train: A B C}]}]\nexpect: [{deepspeed: all, outcome: completes}]\n");
  for (const char* release : {"0.9.5", "0.19.8"}) {
    const json report =
        report_of("zero3sim run " + file + " --ranks 3 --lr 0.1 --deepspeed " + std::string(release));
    for (const json& rank : report.at("tensors")) {
      EXPECT_EQ(rank.at("unlike_weights"), json::array()) << release;
      for (const json& loss : rank.at("losses")) EXPECT_EQ(loss.at("value"), loss.at("reference")) << release;
    }
  }
}

TEST_F(Tensors, AreTheSameOnRealProcesses) {
  if (!has_mpi()) GTEST_SKIP() << "built without MPI";
  const std::string run =
      "zero3sim try 't:ABC t:AC t:ABC' --deepspeed 0.19.8 --tensors torch --optimizer adam";
  const std::vector<std::string> virtual_ranks = lines_of(shell(run + " --ranks 3").out);
  const std::vector<std::string> processes =
      lines_of(shell(std::string(kMpiEnvironment) + "mpirun -np 3 " + run + " --backend mpi").out);
  ASSERT_GT(virtual_ranks.size(), 5U);
  ASSERT_EQ(processes.size(), virtual_ranks.size());
  for (size_t i = 0; i + 1 < processes.size(); ++i)
    EXPECT_EQ(processes[i], virtual_ranks[i]);  // then: reproduce
}

// What one run saves another loads, and holds the same weights.
TEST_F(Tensors, AreSavedAndLoadedAgain) {
  const Folder folder;
  const std::string saves = folder.write(
      "save.yaml", scenario("", "{repeat: 3, do: [{train: A B C}]}, save_checkpoint, save_16bit_model"));
  const std::string loads =
      folder.write("load.yaml", scenario("", "{train: A B C}, load_checkpoint, save_16bit_model"));
  for (const char* release : {"0.5.10", "0.19.8"}) {
    const std::string directory = folder.path(release);
    const std::string model = directory + "/pytorch_model.bin";
    const std::string options = std::string(" --deepspeed ") + release +
                                " --ranks 2 --optimizer adam --save-dir " + shell_quoted(directory);
    const json report = report_of("zero3sim run " + saves + options);
    EXPECT_EQ(report.at("tensors")[0].at("files"),
              json({directory + "/zero_pp_rank_0_mp_rank_00_optim_states.pt", model}));
    const std::string saved = read_file(model);
    EXPECT_GT(saved.size(), 3U * 64 * 4);
    std::filesystem::remove(model);
    report_of("zero3sim run " + loads + options);
    EXPECT_TRUE(read_file(model) == saved) << release;
  }
}

// deepspeed-1686: the third save raises while it gathers.
TEST_F(Tensors, LeaveAGoodFileWhereASaveFails) {
  const Folder folder;
  const std::string model = folder.write("pytorch_model.bin", "a good file");
  const Outcome failing = shell(
      "zero3sim run scenarios/saving/notebook-saves-layer-by-layer.yaml --deepspeed 0.5.10 --tensors torch "
      "--save-dir " +
      shell_quoted(folder.path("")));
  EXPECT_NE(failing.exit_code, 2) << failing.errors;
  for (const std::string& name : folder.names()) EXPECT_EQ(name.find(".partial"), std::string::npos) << name;
  const std::string file = folder.write("save.yaml", scenario("", "{train: A B C}, save_16bit_model"));
  const Outcome no_folder =
      shell("zero3sim run " + file + " --tensors torch --save-dir " + shell_quoted(model));
  EXPECT_EQ(no_folder.exit_code, 2);
  EXPECT_THAT(no_folder.errors, HasSubstr("pytorch_model.bin"));
  EXPECT_EQ(read_file(model), "a good file");
}

TEST_F(Tensors, RefuseWhatTheyCannotDo) {
  const Outcome half = shell("zero3sim try t:A --tensors torch --dtype float16");
  if (half.exit_code != 0) {
    EXPECT_EQ(half.exit_code, 2);
    EXPECT_THAT(half.errors, HasSubstr("cannot compute"));
    EXPECT_THAT(half.errors, HasSubstr("--dtype float32 or bfloat16"));
  }
  EXPECT_EQ(shell("zero3sim try t:A --tensors torch --dtype bfloat16 --ranks 2").exit_code, 0);
  const Outcome nccl = shell("zero3sim try t:A --tensors torch --backend nccl");
  EXPECT_EQ(nccl.exit_code, 2);
  EXPECT_THAT(nccl.errors, HasSubstr("--backend sim or mpi"));
}

}  // namespace
}  // namespace zero3::cli_test
