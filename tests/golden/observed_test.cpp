// Every run recorded from real DeepSpeed releases: one test a program. Outcome, statuses, printed lines, events in
// order, error text and call path must be those of the record: tests/golden/observed (how it came to be: its
// README.md), and tests/golden/recorded for the shapes and calls that those do not have.
#include <algorithm>

#include <gtest/gtest.h>

#include "sim/run_file/run_file.h"
#include "tests/golden/observed_blocks.h"

namespace zero3::golden {
namespace {

class Observed : public testing::TestWithParam<Block> {};

TEST_P(Observed, ModelDoesWhatTheReleaseDid) { EXPECT_EQ(difference(GetParam(), run_model(GetParam())), ""); }

// Programs and models of all shapes go through the run file and come back the same.
TEST_P(Observed, ComesBackFromItsRunFile) {
  const sim::Experiment& experiment = GetParam().experiment;
  sim::Experiment read = sim::read_runs(sim::write_run(experiment, "golden", 0), "run").front().experiment;
  for (size_t rank = 0; rank < read.rank_programs.size(); ++rank) {
    for (size_t i = 0; i < read.rank_programs[rank].size(); ++i)
      read.rank_programs[rank][i].place = experiment.rank_programs[rank][i].place;  // of another file
  }
  EXPECT_TRUE(read == experiment);
}

std::string test_name(const testing::TestParamInfo<Block>& info) {
  std::string name = info.param.file + "_line_" + std::to_string(info.param.line);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Releases, Observed, testing::ValuesIn(read_observed("tests/golden/observed")),
                         test_name);
INSTANTIATE_TEST_SUITE_P(MoreShapes, Observed, testing::ValuesIn(read_observed("tests/golden/recorded")),
                         test_name);

// The comparison can fail: each kind of difference, put into a copy of a real record, is seen.
class Comparison : public testing::Test {
 protected:
  void SetUp() override {
    const auto blocks = read_observed("tests/golden/observed");
    const auto found = std::ranges::find_if(blocks, [](const Block& block) {
      return block.file == "v0.15.2.main.txt" && block.header.starts_with("= D1 ");
    });
    ASSERT_NE(found, blocks.end());
    block_ = *found;
    modelled_ = run_model(block_);
    ASSERT_EQ(difference(block_, modelled_), "");
  }

  Block block_;
  std::vector<RecordedStep> modelled_;
};

TEST_F(Comparison, SeesAnotherStatus) {
  modelled_[2].statuses = "A=N B=I C=N D=N";
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAMissingEvent) {
  modelled_[1].events.pop_back();
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAnotherOrderOfFetches) {
  std::swap(modelled_[1].events[0], modelled_[1].events[2]);
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAnotherParamInTheError) {
  modelled_[2].error.replace(modelled_[2].error.find("'id': 1"), 7, "'id': 2");
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAnotherText) {
  modelled_[2].error.replace(modelled_[2].error.find("inflight"), 8, "in-fligh");
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAnotherCallPath) {
  modelled_[2].path = "step>reset_step";
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesAMissingPrintedLine) {
  modelled_[2].printed.clear();
  EXPECT_NE(difference(block_, modelled_), "");
}

TEST_F(Comparison, SeesASuccessWhereAFailureWasRecorded) {
  modelled_[2].failed = false;
  EXPECT_NE(difference(block_, modelled_), "");
}

}  // namespace
}  // namespace zero3::golden
