// --tensors torch: LibTorch's autograd fires hooks as the tape says, and training by partitions is training.
#include <algorithm>
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
                                            ::testing::Values("1", "2", "3"),
                                            ::testing::Values("sgd", "adam"), ::testing::Values("1", "2")),
                         [](const auto& one) {
                           std::string name = std::string("v") + std::get<0>(one.param) + "_" +
                                              std::get<1>(one.param) + "_ranks_" + std::get<2>(one.param) +
                                              "_" + std::get<3>(one.param);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace zero3::cli_test
