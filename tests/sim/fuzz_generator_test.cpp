// Generated experiments are the same everywhere, whole, fit for their release, and of every shape.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "coordinator/behaviour.h"
#include "coordinator/release.h"
#include "sim/fuzz/generator.h"
#include "sim/fuzz/random_model.h"
#include "sim/fuzz/reduction.h"
#include "sim/fuzz/statistics.h"
#include "sim/release_features.h"
#include "sim/run_file/run_file.h"

namespace zero3::sim {
namespace {

FuzzTarget target_of(const std::string& release, bool early_stop = true) {
  return {.release = *Release::parse(release), .early_stop = early_stop};
}

// FNV-1a
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string first_runs(const FuzzTarget& target, uint64_t seed, uint64_t programs, int ranks) {
  std::string text;
  for (uint64_t i = 0; i < programs; ++i)
    text += write_run(generate(seed, i, target, ranks), std::to_string(i), 0);
  return text;
}

TEST(FuzzGenerator, ProgramsAreAFunctionOfSeedIndexReleaseAndRanks) {
  EXPECT_EQ(hash_of(first_runs(target_of("0.15.2"), 1, 100, 1)), 7048044262165634695U);
  EXPECT_EQ(hash_of(first_runs(target_of("0.5.10", false), 7, 100, 2)), 6787193896431882299U);
}

TEST(FuzzGenerator, SeedsDiffer) {
  const FuzzTarget target = target_of("0.15.2");
  EXPECT_NE(first_runs(target, 1, 3, 1), first_runs(target, 2, 3, 1));
}

TEST(FuzzGenerator, AReleasesMissingFeatureLeavesSettingsAlone) {
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(generate(3, i, target_of("0.4.4"), 1).settings,
              generate(3, i, target_of("0.19.8"), 1).settings);
  }
}

TEST(FuzzGenerator, EveryProgramIsWellFormedAndItsReleaseHasAllOfIt) {
  for (const Release& release : known_releases()) {
    for (uint64_t i = 0; i < 60; ++i) {
      const Experiment experiment = generate(5, i, {.release = release}, 1 + static_cast<int>(i % 2));
      ASSERT_TRUE(well_formed(experiment)) << release.text() << " program " << i;
      ASSERT_FALSE(first_missing(experiment, release)) << release.text() << " program " << i;
    }
  }
}

TEST(FuzzGenerator, ModulesHaveNamesOfTheirOwn) {
  for (uint64_t i = 0; i < 500; ++i) {
    std::set<std::string> names;
    for (const ModuleSpec& module : generate(9, i, target_of("0.15.2"), 1).model.modules) {
      EXPECT_TRUE(names.insert(module.name).second) << module.name << " twice in program " << i;
    }
  }
}

TEST(FuzzGenerator, EveryShapeAndOperationComesUpInTheFirstFiveHundred) {
  const FuzzStatistics statistics = statistics_of(1, 0, 500, target_of("0.15.2"), {1, 2});
  for (const auto& [what, programs] : statistics.shapes) EXPECT_GT(programs, 0U) << what;
  for (const auto& [what, programs] : statistics.operations) EXPECT_GT(programs, 0U) << what;
}

TEST(FuzzGenerator, OldTorchRecomputesRegionsWhole) {
  const FuzzStatistics statistics = statistics_of(1, 0, 200, target_of("0.5.10", false), {1});
  EXPECT_EQ(statistics.shapes.at("checkpointing, non-reentrant"), 0U);
  EXPECT_GT(statistics.shapes.at("checkpointing, whole recompute"), 0U);
  EXPECT_EQ(statistics.shapes.at("leaf module"), 0U);
}

// Programs that all complete, or all fail at once, would find nothing.
TEST(FuzzGenerator, AGoodShareCompletesAndAGoodShareFailsLate) {
  for (const char* release : {"0.5.10", "0.9.5", "0.15.2", "0.19.8"}) {
    const FuzzStatistics statistics = statistics_of(1, 0, 500, target_of(release), {1});
    EXPECT_GT(statistics.completed, 150U) << release;
    EXPECT_GT(statistics.failed_late, 75U) << release;
    EXPECT_GE(statistics.failures.size(), 5U) << release;
  }
}

}  // namespace
}  // namespace zero3::sim
