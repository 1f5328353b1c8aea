// The library in scenarios/: every file can be read, and ends on every release as it says.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cli/common.h"
#include "sim/cli/library_table.h"
#include "sim/release_selection.h"
#include "sim/scenario/scenario.h"

namespace zero3::sim {
namespace {

std::vector<Release> all_releases() { return {known_releases().begin(), known_releases().end()}; }

Outcome on_models(const Experiment& experiment, const Release& release, uint64_t seed) {
  return outcome_of(experiment, release, {.seed = seed, .runs_what_lacks = true});
}

class ScenarioLibrary : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioLibrary, EndsAsItSays) {
  const Scenario scenario = load_scenario(GetParam());
  EXPECT_EQ(scenario.name, std::filesystem::path(GetParam()).stem().string());
  EXPECT_FALSE(scenario.source.empty());
  EXPECT_FALSE(scenario.description.empty());
  const cli::LibraryRow row = cli::judged(scenario, all_releases(), scenario.ranks, scenario.seed, on_models);
  EXPECT_FALSE(row.as_expected.empty());
  for (const auto& [difference, releases] : row.differing)
    ADD_FAILURE() << fold(releases) << ": " << difference;
}

// A scenario that is wrong on purpose: else nothing shows that the above can fail.
TEST(ScenarioCanary, IsToldToDiffer) {
  const Scenario scenario = load_scenario("scenarios/canary/wrong-on-purpose.yaml");
  const cli::LibraryRow row = cli::judged(scenario, all_releases(), scenario.ranks, scenario.seed, on_models);
  ASSERT_EQ(row.differing.size(), 1U);
  EXPECT_EQ(row.differing[0].first, "expected completes, got inflight-at-reset");
  EXPECT_EQ(fold(row.differing[0].second), "0.5.11-dev - 0.15.2");
  EXPECT_EQ(row.verdict, Verdict::kNotAsExpected);
}

TEST(ScenarioCanary, IsPassedOverBelowAFolder) {
  const std::vector<std::string> all = cli::scenario_files({"scenarios"});
  EXPECT_EQ(std::ranges::count(all, "scenarios/canary/wrong-on-purpose.yaml"), 0);
  EXPECT_EQ(cli::scenario_files({"scenarios/canary"}).size(), 1U);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioLibrary, testing::ValuesIn(cli::scenario_files({"scenarios"})),
                         test_name);

}  // namespace
}  // namespace zero3::sim
