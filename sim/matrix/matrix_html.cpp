// The matrix as one HTML file: no script, no other file; a cell opens to its failure's text.
#include <string_view>

#include <fmt/format.h>

#include "sim/matrix/matrix.h"
#include "sim/outcome/outcome_text.h"
#include "sim/release_selection.h"
#include "sim/report/markup.h"

namespace zero3::sim {
namespace {

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>zero3sim matrix</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #1c1c1c; background: #fff; }
table { border-collapse: separate; border-spacing: 2px; }
th { text-align: left; font-weight: 600; vertical-align: bottom; white-space: nowrap; background: #fff; }
thead th { position: sticky; top: 0; padding: 4px 6px; }
tbody th { position: sticky; left: 0; padding: 2px 8px 2px 0; }
td { vertical-align: top; padding: 2px 6px; border-radius: 3px; white-space: nowrap; }
td.good { background: #d9f2df; }
td.fails { background: #f8d3cf; }
td.hangs { background: #e3d3f4; }
td.wrong-data { background: #f4b6c2; }
td.silent { background: #fdebc0; }
td.lacking { background: #ececec; color: #666; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; max-width: 60ch; margin: 4px 0; font-size: 12px; }
small { color: #666; font-weight: 400; }
</style>
</head>
<body>
<h1>zero3sim matrix</h1>
)";

std::string_view css_class(const Outcome& outcome) {
  if (outcome.end != End::kCompletes) return name(outcome.end);
  return outcome.good() ? "good" : "silent";
}

std::string cell_html(const MatrixRow& row, const MatrixCell& cell) {
  const std::string word = markup_text(cell_word(cell.outcome));
  const std::string begin = fmt::format("<td class=\"{}\">", css_class(cell.outcome));
  if (row.verdict(cell) == Verdict::kAsExpected) return begin + word + "</td>\n";
  return fmt::format("{}<details><summary>{}</summary><pre>{}{}</pre></details></td>\n", begin, word,
                     markup_text(outcome_text(cell.outcome)), markup_text(cell.reproduce));
}

}  // namespace

std::string html_report(const Matrix& matrix) {
  std::string html = std::string(kHead) + "<p>" + markup_text(best_releases(matrix)) +
                     "A cell that is not ok opens to its text and the command that repeats it.</p>\n" +
                     "<table>\n<thead><tr><th>program</th>\n";
  for (const std::vector<Release>& releases : matrix.columns)
    html += "<th scope=\"col\">" + markup_text(fold(releases)) + "</th>\n";
  html += "</tr></thead>\n<tbody>\n";
  for (const MatrixRow& row : matrix.rows) {
    html += fmt::format("<tr><th scope=\"row\" title=\"{}\">{}</th>\n", markup_text(row.path),
                        markup_text(row.label()));
    for (const MatrixCell& cell : row.cells) html += cell_html(row, cell);
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</body>\n</html>\n";
}

}  // namespace zero3::sim
