#include "sim/matrix/matrix.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

bool same_column(const std::vector<std::vector<ReleaseOutcome>>& by_program, size_t a, size_t b) {
  return std::ranges::all_of(by_program, [a, b](const std::vector<ReleaseOutcome>& outcomes) {
    return end_alike(outcomes[a].outcome, outcomes[b].outcome);
  });
}

}  // namespace

Verdict MatrixRow::verdict(const MatrixCell& cell) const {
  if (cell.outcome.end == End::kLacking) return Verdict::kInconclusive;
  if (cell.outcome.end == End::kHangs) return Verdict::kHang;
  if (!cell.outcome.good()) return Verdict::kNotAsExpected;
  return partial ? Verdict::kInconclusive : Verdict::kAsExpected;
}

std::string MatrixRow::label() const {
  std::string notes;
  if (ranks > 1) notes = fmt::format("{} ranks", ranks);
  if (partial) notes += notes.empty() ? "recorded in part" : ", recorded in part";
  return notes.empty() ? name : fmt::format("{} ({})", name, notes);
}

Verdict Matrix::verdict() const {
  bool any = false;
  Verdict verdict = Verdict::kAsExpected;
  for (const MatrixRow& row : rows) {
    for (const MatrixCell& cell : row.cells) {
      if (cell.outcome.end == End::kLacking) continue;
      any = true;
      verdict = worse(verdict, row.verdict(cell));
    }
  }
  return any ? verdict : Verdict::kInconclusive;
}

size_t Matrix::good_rows(size_t column) const {
  return static_cast<size_t>(std::ranges::count_if(
      rows, [column](const MatrixRow& row) { return row.cells[column].outcome.good(); }));
}

Matrix matrix_of(const std::vector<TestedProgram>& programs, const std::vector<Release>& releases,
                 const std::function<void(const TestedProgram&)>& begins) {
  std::vector<std::vector<ReleaseOutcome>> by_program;
  for (const TestedProgram& program : programs) {
    begins(program);
    by_program.push_back(program.outcomes_on(releases));
  }
  Matrix matrix;
  std::vector<size_t> lasts;  // each column's last release, by index
  for (size_t i = 0; i < releases.size(); ++i) {
    if (lasts.empty() || !same_column(by_program, lasts.back(), i)) {
      lasts.push_back(i);
      matrix.columns.emplace_back();
    }
    lasts.back() = i;
    matrix.columns.back().push_back(releases[i]);
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    const TestedProgram& program = programs[i];
    MatrixRow row{.name = program.name,
                  .title = program.title,
                  .path = program.path,
                  .ranks = program.ranks(),
                  .seed = program.seed,
                  .partial = program.partial,
                  .cells = {}};
    for (const size_t last : lasts)
      row.cells.push_back({std::move(by_program[i][last].outcome), program.reproduce(releases[last])});
    matrix.rows.push_back(std::move(row));
  }
  return matrix;
}

std::string best_releases(const Matrix& matrix) {
  size_t most = 0;
  for (size_t i = 0; i < matrix.columns.size(); ++i) most = std::max(most, matrix.good_rows(i));
  std::vector<Release> best;
  for (size_t i = 0; i < matrix.columns.size(); ++i) {
    if (matrix.good_rows(i) == most)
      best.insert(best.end(), matrix.columns[i].begin(), matrix.columns[i].end());
  }
  const size_t rows = matrix.rows.size();
  if (most == 0) return "ok on none of these releases\n";
  if (most < rows) return fmt::format("{} of {} ok, the most, on {}\n", most, rows, fold(best));
  return fmt::format("{}ok on {}\n", rows == 1 ? "" : "all ", fold(best));
}

}  // namespace zero3::sim
