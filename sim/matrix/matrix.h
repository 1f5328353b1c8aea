// Which program does what on which release: rows are programs, columns are releases, folded where no row changes.
//
// A cell asks whether the program completes there, whatever its scenario expects of the release.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/outcome/outcome.h"
#include "sim/outcome/tested_program.h"
#include "sim/verdict.h"

namespace zero3::sim {

struct MatrixCell {
  Outcome outcome = {};  // on the column's last release; it ends alike on the others
  std::string reproduce = {};
};

struct MatrixRow {
  std::string name = {};
  std::string title = {};
  std::string path = {};
  int ranks = 1;
  uint64_t seed = 0;
  bool partial = false;
  std::vector<MatrixCell> cells = {};  // by column

  // Completes with nothing worse than harmless: as expected, of a partial recording inconclusive; a hang; what the
  // release lacks is inconclusive; anything else is not as expected.
  Verdict verdict(const MatrixCell& cell) const;
  // "llama (2 ranks, recorded in part)"
  std::string label() const;
};

struct Matrix {
  std::vector<std::vector<Release>> columns = {};  // ascending; in each, every row ends alike
  std::vector<MatrixRow> rows = {};

  // The worst cell's, leaving out what releases lack; inconclusive if nothing is left.
  Verdict verdict() const;
  // In how many rows the column is good.
  size_t good_rows(size_t column) const;
};

// `begins`: told of each program before it runs. Preconditions: neither is empty, releases ascend.
Matrix matrix_of(const std::vector<TestedProgram>& programs, const std::vector<Release>& releases,
                 const std::function<void(const TestedProgram&)>& begins);

// `width`: columns of the terminal. Where words do not fit, cells have codes; where those do not, the table is split.
std::string text_report(const Matrix& matrix, size_t width);
std::string markdown_report(const Matrix& matrix);
std::string json_report(const Matrix& matrix);   // docs/matrix.md
std::string junit_report(const Matrix& matrix);  // a case for each cell
std::string html_report(const Matrix& matrix);   // one file that needs no other

// "all ok on 0.15.3", "2 of 3 ok, the most, on 0.6.0 - 0.15.2", "ok on none of these releases"
std::string best_releases(const Matrix& matrix);

}  // namespace zero3::sim
