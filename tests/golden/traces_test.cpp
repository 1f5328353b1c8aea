// What the programs of tests/golden/programs did on real releases, on 1 and 2 ranks, event by event: launches, waits,
// releases, hooks, statuses, whole error texts. tests/golden/traces/README.md says how they were recorded.
#include <algorithm>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "coordinator/release.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/comparison.h"
#include "sim/verify/model_trace.h"
#include "sim/verify/trace_reader.h"
#include "tests/golden/packed_traces.h"

namespace zero3::golden {
namespace {

std::string shown(const sim::Comparison& comparison) {
  if (!comparison.difference) return comparison.text;
  const sim::Difference& difference = *comparison.difference;
  const auto line = [&](const std::vector<sim::TraceLine>& lines) {
    return difference.line < lines.size() ? lines[difference.line].text : std::string("nothing more");
  };
  return "rank " + std::to_string(difference.rank) + ", statement " + std::to_string(difference.statement) +
         ": " + difference.what + "\n  model: " + line(difference.model) +
         "\n  real:  " + line(difference.real);
}

class RecordedTrace : public testing::TestWithParam<PackedTrace> {};

TEST_P(RecordedTrace, ModelsLeaveTheSameEvents) {
  const PackedTrace& packed = GetParam();
  const sim::Scenario scenario = sim::load_scenario("tests/golden/programs/" + packed.program + ".yaml");
  const sim::Experiment experiment = scenario.experiment(packed.ranks, scenario.seed);
  const std::vector<sim::RunTrace> real = sim::read_traces(packed.text, packed.file);
  ASSERT_EQ(real.size(), 1u);
  for (const std::string& release : packed.releases) {
    const sim::ModelRun model =
        sim::model_run(experiment, scenario.name, *Release::parse(release), scenario.seed);
    const sim::Comparison comparison = sim::compare(model.trace, real.front());
    EXPECT_EQ(comparison.outcome, sim::Comparison::Outcome::kAgrees)
        << packed.program << " on " << release << ", " << packed.ranks << " ranks: " << shown(comparison);
    EXPECT_GT(comparison.events, 0u);
  }
}

std::string test_name(const testing::TestParamInfo<PackedTrace>& info) {
  std::string name =
      info.param.program + "_" + std::to_string(info.param.ranks) + "_" + info.param.releases.front();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Releases, RecordedTrace, testing::ValuesIn(read_packed("tests/golden/traces")),
                         test_name);

// Packing lost nothing: what a release did is there once, and all programs are.
TEST(PackedTraces, HoldEveryProgramOnce) {
  std::map<std::string, int> seen;
  for (const PackedTrace& trace : read_packed("tests/golden/traces")) {
    for (const std::string& release : trace.releases) {
      EXPECT_EQ(++seen[trace.program + " " + release + " " + std::to_string(trace.ranks)], 1);
    }
  }
  EXPECT_GE(seen.size(), 36u * 2u);
}

// A program that real DeepSpeed never ran would prove nothing.
TEST(PackedTraces, AreThereForEveryProgram) {
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/programs")) {
    const std::string name = entry.path().stem().string();
    EXPECT_TRUE(std::filesystem::exists("tests/golden/traces/" + name + ".json")) << name;
  }
}

}  // namespace
}  // namespace zero3::golden
