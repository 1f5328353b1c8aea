// zero3sim matrix as people and programs call it: formats, files, widths, exit codes, what is wrong with the input.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

const std::string kSkipped = "scenarios/dynamic-graphs/deepspeed-5828.yaml";
const std::string kStatic = "scenarios/controls/static-mlp.yaml";

TEST(MatrixCommand, ExitCodes) {
  EXPECT_EQ(shell("zero3sim matrix " + kStatic).exit_code, 0);
  EXPECT_EQ(shell("zero3sim matrix " + kStatic + " " + kSkipped).exit_code, 1);
  EXPECT_EQ(
      shell("zero3sim matrix scenarios/rank-divergence/unequal-sizes.yaml --deepspeed 0.15.2").exit_code, 3);
  EXPECT_EQ(shell("zero3sim matrix docs/examples/train.v0.15.2.jsonl --deepspeed 0.15.3").exit_code, 4);
}

TEST(MatrixCommand, FitsTheTerminal) {
  for (const char* columns : {"60", "100", "150"}) {
    const Outcome outcome = shell(std::string("COLUMNS=") + columns +
                                  " zero3sim matrix scenarios/dynamic-graphs scenarios/saving");
    EXPECT_THAT(outcome.errors, IsEmpty());  // no progress in a pipe
    const std::vector<std::string> lines = lines_of(outcome.out);
    EXPECT_THAT(lines, testing::Contains(StartsWith("deepspeed-5828")));
    for (const std::string& line : lines) EXPECT_LE(line.size(), std::stoul(columns)) << line;
  }
}

TEST(MatrixCommand, WritesAFile) {
  const Folder folder;
  const std::string file = folder.path("matrix.html");
  const Outcome outcome = shell("zero3sim matrix " + kSkipped + " --format html --out " + shell_quoted(file));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(read_file(file), StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(shell("zero3sim matrix " + kSkipped + " --format html").out, read_file(file));
  EXPECT_THAT(folder.names(), ElementsAre("matrix.html"));
}

// Scenarios and recorded runs of a folder; traces beside them are no runs.
TEST(MatrixCommand, TakesFoldersOfBoth) {
  const Outcome outcome =
      shell("zero3sim matrix tests/golden/runs docs/examples --deepspeed 0.15.2 --format json");
  const auto json = nlohmann::json::parse(outcome.out);
  std::vector<std::string> files;
  for (const auto& program : json.at("programs")) files.push_back(program.at("file"));
  EXPECT_THAT(files, testing::Contains("tests/golden/runs/llama.v0.15.2.jsonl"));
  EXPECT_THAT(files, testing::Contains("docs/examples/nested-gather.yaml"));
  EXPECT_THAT(files, testing::Contains("docs/examples/train.v0.15.2.jsonl"));
  EXPECT_THAT(files, testing::Not(testing::Contains(HasSubstr(".trace."))));
}

// The reproducer of a cell ends as the cell says.
TEST(MatrixCommand, ReproducersRepeatTheCell) {
  const auto json = nlohmann::json::parse(shell("zero3sim matrix scenarios/gathering --format json").out);
  size_t failures = 0;
  for (const auto& program : json.at("programs")) {
    for (const auto& cell : program.at("cells")) {
      if (!cell.at("outcome").contains("failure") || failures > 20) continue;
      ++failures;
      const std::string line = cell.at("reproduce");
      const auto report = nlohmann::json::parse(shell(line + " --format json").out);
      EXPECT_EQ(report.at("failure").at("kind"), cell.at("word")) << line;
    }
  }
  EXPECT_GT(failures, 3U);
}

TEST(MatrixCommand, BadInputIsNamedAndTheRestRuns) {
  const Outcome outcome = shell("zero3sim matrix missing.yaml " + kSkipped + " --deepspeed 0.15.2");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("missing.yaml"));
  EXPECT_THAT(outcome.out, HasSubstr("inflight-at-reset"));
  const Outcome nothing = shell("zero3sim matrix missing.yaml also-missing.yaml");
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.out, IsEmpty());
  EXPECT_THAT(nothing.errors, HasSubstr("also-missing.yaml"));
}

TEST(MatrixCommand, RefusesWhatIsNoRange) {
  const Outcome empty = shell("zero3sim matrix " + kStatic + " --deepspeed '0.15.3 - 0.15.2'");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_THAT(empty.errors, HasSubstr("the range 0.15.3 - 0.15.2 is empty"));
  const Outcome between = shell("zero3sim matrix " + kStatic + " --deepspeed 0.15.7");
  EXPECT_EQ(between.exit_code, 2);
  EXPECT_THAT(between.errors, HasSubstr("the known releases around it are 0.15.4 and 0.16.0"));
  EXPECT_EQ(shell("zero3sim matrix " + kStatic + " --format pdf").exit_code, 2);
  const Outcome out = shell("zero3sim matrix " + kStatic + " --out /nowhere/matrix.txt");
  EXPECT_EQ(out.exit_code, 2);
  EXPECT_THAT(out.errors, HasSubstr("cannot write the matrix /nowhere/matrix.txt"));
}

}  // namespace
}  // namespace zero3::cli_test
