// The matrix as JSON (docs/matrix.md) and as JUnit's XML.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/matrix/matrix.h"
#include "sim/outcome/outcome_json.h"
#include "sim/outcome/outcome_text.h"
#include "sim/release_selection.h"
#include "sim/report/markup.h"

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr int kMatrixVersion = 1;

ordered_json cell_json(const MatrixRow& row, const MatrixCell& cell) {
  ordered_json out = {{"word", cell_word(cell.outcome)}};
  if (cell.outcome.end != End::kLacking) out["verdict"] = name(row.verdict(cell));
  out["outcome"] = outcome_json(cell.outcome);
  out["reproduce"] = cell.reproduce;
  return out;
}

std::string junit_case(const MatrixRow& row, const MatrixCell& cell, const std::string& releases) {
  const std::string begin = fmt::format("  <testcase classname=\"zero3sim.matrix.{}\" name=\"deepspeed {}\"",
                                        markup_text(row.label()), markup_text(releases));
  if (cell.outcome.end == End::kLacking)
    return fmt::format("{}>\n    <skipped message=\"{}\"/>\n  </testcase>\n", begin,
                       markup_text(cell.outcome.lacking));
  const Verdict verdict = row.verdict(cell);
  if (verdict == Verdict::kAsExpected) return begin + "/>\n";
  const std::string_view element = verdict == Verdict::kInconclusive ? "error" : "failure";
  return fmt::format("{}>\n    <{} type=\"{}\" message=\"{}\">{}reproduce: {}\n</{}>\n  </testcase>\n", begin,
                     element, name(verdict), markup_text(cell_word(cell.outcome)),
                     markup_text(outcome_text(cell.outcome)), markup_text(cell.reproduce), element);
}

}  // namespace

std::string json_report(const Matrix& matrix) {
  ordered_json out = {{"zero3sim", kMatrixVersion}, {"verdict", name(matrix.verdict())}};
  out["columns"] = ordered_json::array();
  for (const std::vector<Release>& releases : matrix.columns) {
    ordered_json members = ordered_json::array();
    for (const Release& release : releases) members.push_back(release.text());
    out["columns"].push_back({{"range", fold(releases)}, {"releases", members}});
  }
  out["programs"] = ordered_json::array();
  for (const MatrixRow& row : matrix.rows) {
    ordered_json program = {{"name", row.name}, {"file", row.path},       {"ranks", row.ranks},
                            {"seed", row.seed}, {"partial", row.partial}, {"cells", ordered_json::array()}};
    for (const MatrixCell& cell : row.cells) program["cells"].push_back(cell_json(row, cell));
    out["programs"].push_back(std::move(program));
  }
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string junit_report(const Matrix& matrix) {
  size_t tests = 0;
  size_t failures = 0;
  size_t errors = 0;
  size_t skipped = 0;
  std::string cases;
  for (const MatrixRow& row : matrix.rows) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const MatrixCell& cell = row.cells[i];
      const Verdict verdict = row.verdict(cell);
      ++tests;
      if (cell.outcome.end == End::kLacking) {
        ++skipped;
      } else if (verdict == Verdict::kInconclusive) {
        ++errors;
      } else if (verdict != Verdict::kAsExpected) {
        ++failures;
      }
      cases += junit_case(row, cell, fold(matrix.columns[i]));
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"zero3sim matrix\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}"
      "</testsuite>\n",
      tests, failures, errors, skipped, cases);
}

}  // namespace zero3::sim
