// zero3sim races at the command line: exit codes, what it refuses, one order alone.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::HasSubstr;

const std::string kQwen = "zero3sim races scenarios/leaf-modules/qwen3-moe-two-outputs.yaml";
constexpr int kBadInput = 2;

void expect_refused(const std::string& command, const std::string& message, const std::string& advice) {
  const Outcome outcome = shell(command);
  EXPECT_EQ(outcome.exit_code, kBadInput) << command;
  EXPECT_EQ(outcome.out, "") << command;
  EXPECT_THAT(outcome.errors, HasSubstr(message)) << command;
  EXPECT_THAT(outcome.errors, HasSubstr(advice)) << command;
}

TEST(Races, ExitWithWhetherAnInterleavingFails) {
  EXPECT_EQ(shell(kQwen + " --deepspeed 0.18.5").exit_code, 1);
  EXPECT_EQ(shell(kQwen + " --deepspeed 0.18.6").exit_code, 0);
  EXPECT_EQ(shell(kQwen + " --deepspeed all").exit_code, 1);
  EXPECT_EQ(shell(kQwen + " --deepspeed '>= 0.18.6' --threads 3").exit_code, 0);
}

// What one rank copies twice is the same copy.
TEST(Races, GatheringTwiceHarmsSeveralRanks) {
  const std::string one = kQwen + " --deepspeed 0.15.2 --params 1 --ranks 2 --format json";
  const auto report = nlohmann::json::parse(shell(one).out);
  std::string steps;
  for (const auto& outcome : report["outcomes"]) {
    if (outcome["outcome"] != "gathered-twice") continue;
    for (const auto& step : outcome["steps"])
      steps += (steps.empty() ? "" : ",") + std::to_string(step["thread"].get<int>());
  }
  ASSERT_NE(steps, "");
  const Outcome told = shell(kQwen + " --deepspeed 0.15.2 --params 1 --ranks 2 --order " + steps);
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.out, HasSubstr("2 ranks: this order fails (not as expected)"));
  EXPECT_THAT(told.out, HasSubstr("--order " + steps));
}

TEST(Races, JsonNamesEachFailure) {
  const auto report = nlohmann::json::parse(shell(kQwen + " --deepspeed 0.15.2 --format json").out);
  EXPECT_EQ(report["deepspeed"], "0.15.2");
  EXPECT_EQ(report["verdict"], "not as expected");
  EXPECT_EQ(report["module"]["name"], "mlp");
  EXPECT_EQ(report["partitioned_params"], 5);
  size_t raising = 0;
  for (const auto& outcome : report["outcomes"]) raising += outcome.contains("exception") ? 1 : 0;
  EXPECT_EQ(raising, 8U);
  EXPECT_EQ(report["outcomes"][3]["outcome"], "already-in-registry");
  EXPECT_THAT(report["outcomes"][3]["text"].get<std::string>(), HasSubstr("} already in registry"));
  const auto two = nlohmann::json::parse(shell(kQwen + " --deepspeed all --format json").out);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0]["deepspeed"], "0.13.0 - 0.18.5");
}

TEST(Races, TakeAShortFormsModel) {
  Folder folder;
  const std::string model = folder.write("leaf.json", read_file("docs/examples/leaf.json"));
  const Outcome outcome =
      shell("zero3sim races --program 't:A[a]' --threads 2 --deepspeed 0.15.2 --persist 0 --model " +
            shell_quoted(model));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_THAT(outcome.out, HasSubstr("reproduce: zero3sim races --program 't:A[a]' --model "));
}

TEST(Races, RefuseWhatHasNoLeaf) {
  expect_refused("zero3sim races", "one model is needed", "name a scenario, or give --program");
  expect_refused("zero3sim races scenarios/gathering/eval-then-gather.yaml", "the model has no leaf module",
                 "write leaf: true at a module");
  expect_refused(kQwen + " --module embed", "this module is not a leaf module", "leaf modules: mlp");
  expect_refused(kQwen + " --module moe", "the model has no module of that name", "its leaf modules: mlp");
  expect_refused(kQwen + " --deepspeed 0.12.6", "DeepSpeed 0.12.6 has no leaf modules",
                 "0.13.0 brought them");
  expect_refused(kQwen + " --deepspeed '<= 0.12.6'", "DeepSpeed 0.12.6 has no leaf modules", "0.13.0");
  expect_refused("zero3sim races scenarios/leaf-modules/leaf-input-without-gradient.yaml",
                 "the leaf module moe returns one tensor", "write outputs: 2 if it returns two");
  expect_refused("zero3sim races --program t:ABC", "the model has no leaf module", "leaf: true");
}

TEST(Races, RefuseMoreThanCanBeExplored) {
  expect_refused(kQwen + " --deepspeed 0.15.2 --threads 4 --params 5",
                 "4 threads over 5 params have more than 4000000 states",
                 "give a smaller --params or --threads");
}

TEST(Races, RefuseAnOrderThatCannotBe) {
  const std::string old = kQwen + " --deepspeed 0.15.2 --order ";
  expect_refused(old + "1,3", "--order:1:3: error: this is no thread", "1 to 2, as in 1,1,2");
  expect_refused(old + "1,,2", "--order:1:3: error: this is no thread", "as in 1,1,2");
  expect_refused(old + "1,2,", "--order:1:5: error: this is no thread", "as in 1,1,2");
  expect_refused(old + "1,2", "not an order of these threads", "the order ends before the threads do");
  expect_refused(kQwen + " --deepspeed 0.19.8 --order 1,2,2", "not an order of these threads",
                 "after 2 steps thread 2 is done, or waits for another one");
}

}  // namespace
}  // namespace zero3::cli_test
