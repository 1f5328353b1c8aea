// The library in scenarios/: every file can be read, and ends on every release as it says.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/scenario/scenario.h"
#include "sim/simulate.h"

namespace zero3::sim {
namespace {

std::vector<std::string> library() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("scenarios")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

Ending run(const Scenario& scenario, const Release& release) {
  const Experiment experiment = scenario.experiment();
  const SimulationResult result =
      simulate(experiment, {.release = release, .set_order_seed = 0, .watch = {}});
  if (!result.failed()) return {};
  const auto rank = static_cast<size_t>(result.first_failed_rank);
  const RankFailure& failure = *result.ranks[rank].failure;
  Ending ending{.failure = failure.kind,
                .text = failure.text,
                .rank = result.first_failed_rank,
                .statement = failure.statement,
                .statement_text = experiment.rank_programs[rank][failure.statement].text,
                .params = {}};
  for (const RankFailure::NamedParam& param : failure.params)
    ending.params.push_back({param.name, param.status});
  return ending;
}

class ScenarioLibrary : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioLibrary, EndsAsItSays) {
  const Scenario scenario = load_scenario(GetParam());
  EXPECT_EQ(scenario.name, std::filesystem::path(GetParam()).stem().string());
  EXPECT_FALSE(scenario.source.empty());
  EXPECT_FALSE(scenario.expectations.empty());
  for (const Release& release : known_releases()) {
    const std::optional<Expectation> expected = scenario.expected_for(release);
    if (!expected) continue;
    check_release(scenario, scenario.experiment(), release);
    EXPECT_EQ(difference(*expected, run(scenario, release)), "") << release.text();
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioLibrary, testing::ValuesIn(library()), test_name);

}  // namespace
}  // namespace zero3::sim
