// The matrix: columns fold where no program changes, cells say how it ends, and each report holds all of it.
#include "sim/matrix/matrix.h"

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/outcome/outcome_json.h"
#include "sim/release_selection.h"
#include "tests/support/tested_programs.h"

namespace zero3::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Matrix matrix_on(const std::vector<TestedProgram>& programs, const std::string& releases) {
  return matrix_of(programs, parse_releases(releases, "--deepspeed"), [](const TestedProgram&) {});
}

std::vector<std::string> ranges(const Matrix& matrix) {
  std::vector<std::string> texts;
  for (const auto& releases : matrix.columns) texts.push_back(fold(releases));
  return texts;
}

std::vector<std::string> words(const MatrixRow& row) {
  std::vector<std::string> texts;
  for (const MatrixCell& cell : row.cells) texts.push_back(cell_word(cell.outcome));
  return texts;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// What README shows of DeepSpeed#5828: up to v0.15.2, and not of v1's coordinator.
TEST(Matrix, FoldsWhereNothingChanges) {
  const Matrix matrix = matrix_on({short_program("t:ABC t:ABC t:AC", "skipped")}, "all");
  EXPECT_THAT(ranges(matrix), ElementsAre("0.3.12 - 0.5.10", "0.5.11-dev - 0.15.2", "0.15.3 - 0.19.8"));
  EXPECT_THAT(words(matrix.rows.front()), ElementsAre("ok", "inflight-at-reset", "ok"));
  EXPECT_EQ(matrix.verdict(), Verdict::kNotAsExpected);
  EXPECT_EQ(best_releases(matrix), "ok on 0.3.12 - 0.5.10, 0.15.3 - 0.19.8\n");
}

// One row that changes parts the column for all.
TEST(Matrix, AColumnIsAlikeInEveryRowAndUnlikeItsNeighbour) {
  const std::vector<TestedProgram> programs = {
      short_program("t:ABC t:ABC t:AC", "skipped"), short_program("t:ABC t:ABC", "static"),
      short_program("t:ABC x t:ABC", "cached"), short_program("t:ABC t:ABC eo:ABC g:B t:ABC", "evaluated")};
  const Matrix matrix = matrix_on(programs, "all");
  size_t releases = 0;
  for (size_t column = 0; column < matrix.columns.size(); ++column) {
    releases += matrix.columns[column].size();
    bool differs = column == 0;
    for (size_t row = 0; row < programs.size(); ++row) {
      const Outcome& shown = matrix.rows[row].cells[column].outcome;
      for (const Release& release : matrix.columns[column])
        EXPECT_TRUE(end_alike(programs[row].outcome_on(release), shown)) << release.text();
      if (column > 0) differs = differs || !end_alike(matrix.rows[row].cells[column - 1].outcome, shown);
    }
    EXPECT_TRUE(differs) << fold(matrix.columns[column]);
  }
  EXPECT_EQ(releases, known_releases().size());
}

TEST(Matrix, OfWhatReleasesLackNothingIsDecided) {
  const TestedProgram cached = short_program("t:ABC x", "cached");
  EXPECT_EQ(matrix_on({cached}, "0.6.0, 0.9.5").verdict(), Verdict::kAsExpected);
  EXPECT_EQ(matrix_on({cached}, "0.6.0").verdict(), Verdict::kInconclusive);
}

// What a recording that was cut would have done next is not known.
TEST(Matrix, APartialRecordingThatCompletesIsInconclusive) {
  TestedProgram program = short_program("t:ABC t:ABC", "cut");
  program.partial = true;
  const Matrix matrix = matrix_on({program}, "0.19.8");
  EXPECT_EQ(matrix.verdict(), Verdict::kInconclusive);
  EXPECT_EQ(matrix.rows.front().label(), "cut (recorded in part)");
}

TEST(Matrix, TextFitsTheWidth) {
  const std::vector<TestedProgram> programs = {
      short_program("t:ABC t:ABC t:AC", "skipped"),
      short_program("t:ABC x t:ABC", "cached-after-a-step-with-a-name-that-is-long"),
      short_program("t:ABC t:ABC eo:ABC g:B t:ABC", "evaluated")};
  const Matrix matrix = matrix_on(programs, "all");
  for (const size_t width : {40, 60, 100, 160}) {
    std::istringstream text(text_report(matrix, width));
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), width) << line;
  }
  EXPECT_THAT(text_report(matrix, 300), HasSubstr("inflight-at-reset"));
  EXPECT_THAT(text_report(matrix, 300), Not(HasSubstr("IF inflight-at-reset")));
  EXPECT_THAT(text_report(matrix, 40), HasSubstr("IF inflight-at-reset"));  // codes, and what they stand for
}

TEST(Matrix, MarkdownHasARowAProgram) {
  const Matrix matrix = matrix_on({short_program("t:ABC t:ABC t:AC", "a|b")}, "0.15.2, 0.15.3");
  EXPECT_EQ(markdown_report(matrix),
            "| program | 0.15.2 | 0.15.3 |\n| --- | --- | --- |\n| a\\|b | inflight-at-reset | ok |\n\n"
            "ok on 0.15.3\n");
}

TEST(Matrix, JunitHasACaseACell) {
  const Matrix matrix =
      matrix_on({short_program("t:ABC t:ABC t:AC", "skipped"), short_program("t:ABC x", "cached")}, "all");
  const std::string xml = junit_report(matrix);
  const size_t cells = matrix.rows.size() * matrix.columns.size();
  EXPECT_EQ(count_of(xml, "<testcase "), cells);
  EXPECT_THAT(xml, HasSubstr("tests=\"" + std::to_string(cells) + "\""));
  EXPECT_THAT(xml, HasSubstr("failures=\"" + std::to_string(count_of(xml, "<failure ")) + "\""));
  EXPECT_GT(count_of(xml, "<failure "), 0U);
  EXPECT_THAT(xml, HasSubstr("RuntimeError: still have inflight params [{'id': 1,"));
  EXPECT_THAT(xml, HasSubstr("<skipped message=\"DeepSpeed 0.8.3 has no empty_partition_cache\"/>"));
}

TEST(Matrix, JsonHasEveryOutcome) {
  const Matrix matrix = matrix_on({short_program("t:ABC t:ABC t:AC", "skipped")}, "all");
  const auto json = nlohmann::ordered_json::parse(json_report(matrix));
  EXPECT_EQ(json.at("verdict"), "not as expected");
  ASSERT_EQ(json.at("columns").size(), matrix.columns.size());
  const auto& cells = json.at("programs").front().at("cells");
  for (size_t i = 0; i < matrix.columns.size(); ++i)
    EXPECT_EQ(outcome_of_json(cells[i].at("outcome")), matrix.rows.front().cells[i].outcome);
}

// A browser asks nobody for anything, and text of programs is no markup.
TEST(Matrix, HtmlIsOneFile) {
  const Matrix matrix = matrix_on({short_program("t:ABC t:ABC t:AC", "<b>\"skipped\"</b>")}, "all");
  const std::string html = html_report(matrix);
  EXPECT_EQ(count_of(html, "<td "), matrix.columns.size());
  EXPECT_EQ(count_of(html, "<td "), count_of(html, "</td>"));
  EXPECT_EQ(count_of(html, "<details>"), count_of(html, "</details>"));
  EXPECT_FALSE(std::regex_search(html, std::regex("<script|<link|src=|href=|url\\(|https?:")));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&quot;skipped&quot;&lt;/b&gt;"));
  EXPECT_THAT(html, HasSubstr("still have inflight params"));
}

// Read back, every kind of end is what it was.
TEST(OutcomeJson, ReadsBackWhatWasWritten) {
  std::vector<TestedProgram> programs = load_programs(
      {"scenarios/rank-divergence/unequal-sizes.yaml", "scenarios/rank-divergence/equal-size-mix-up.yaml",
       "scenarios/silent-faults/stale-weights-while-accumulating.yaml",
       "scenarios/dynamic-graphs/mixture-of-experts-unused-experts.yaml"},
      0, {});
  programs.push_back(short_program("t:ABC t:ABC t:AC", "skipped"));
  programs.push_back(short_program("t:ABC x", "cached"));
  for (const TestedProgram& program : programs) {
    for (const char* release : {"0.5.10", "0.6.0", "0.15.2", "0.19.8"}) {
      const Outcome outcome = program.outcome_on(*Release::parse(release));
      const std::string text = outcome_json(outcome).dump();
      EXPECT_EQ(outcome_of_json(nlohmann::ordered_json::parse(text)), outcome) << program.name << release;
    }
  }
}

TEST(OutcomeJson, NamesWhatIsWrong) {
  const auto refused = [](const char* text) -> std::string {
    try {
      outcome_of_json(nlohmann::ordered_json::parse(text));
    } catch (const NotAnOutcome& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("[]"), "an outcome is an object");
  EXPECT_EQ(refused("{}"), "end is missing or of another type");
  EXPECT_EQ(refused(R"({"end": "well"})"), "end: 'well' is none");
  EXPECT_EQ(refused(R"({"end": "fails", "failure": {"kind": "x"}})"), "kind of failure: 'x' is none");
  EXPECT_EQ(refused(R"({"end": "completes", "usage": [{"rank": "0"}]})"),
            "rank is missing or of another type");
}

}  // namespace
}  // namespace zero3::sim
