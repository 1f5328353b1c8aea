// The matrix as text for a terminal and as markdown.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/matrix/matrix.h"
#include "sim/release_selection.h"

namespace zero3::sim {
namespace {

constexpr size_t kGap = 2;         // blanks between columns
constexpr size_t kLabelShare = 2;  // a row's label has at most the width divided by this
constexpr std::string_view kDots = "..";

// "0.6.0" and "- 0.15.2", one above the other; further parts with a comma at the line's end.
std::vector<std::string> heading(const std::vector<Release>& releases) {
  std::vector<std::string> lines;
  const std::string text = fold(releases);
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find(", ", start), text.size());
    const std::string part = text.substr(start, end - start);
    const size_t dash = part.find(" - ");
    lines.push_back(part.substr(0, dash));
    if (dash != std::string::npos) lines.push_back(part.substr(dash + 1));
    if (end < text.size()) lines.back() += ",";
    start = end + 2;
  }
  return lines;
}

struct Table {
  std::vector<std::string> labels;
  std::vector<std::vector<std::string>> headings;  // by column, lines
  std::vector<std::vector<std::string>> cells;     // by row, by column
  size_t label_width = 0;

  size_t column_width(size_t column) const {
    size_t width = 0;
    for (const std::string& line : headings[column]) width = std::max(width, line.size());
    for (const auto& row : cells) width = std::max(width, row[column].size());
    return width + kGap;
  }
  // One past the last column that fits beside `first`; at least one does.
  size_t panel_end(size_t first, size_t width) const {
    size_t used = label_width;
    size_t end = first;
    while (end < headings.size() && (end == first || used + column_width(end) <= width)) {
      used += column_width(end);
      ++end;
    }
    return end;
  }
};

std::string cut(const std::string& label, size_t width) {
  return label.size() <= width ? label : label.substr(0, width - kDots.size()) + std::string(kDots);
}

Table table_of(const Matrix& matrix, size_t width, std::string (*cell)(const Outcome&)) {
  Table table;
  for (const std::vector<Release>& releases : matrix.columns) table.headings.push_back(heading(releases));
  for (const MatrixRow& row : matrix.rows) {
    table.labels.push_back(cut(row.label(), width / kLabelShare));
    table.label_width = std::max(table.label_width, table.labels.back().size());
    table.cells.emplace_back();
    for (const MatrixCell& one : row.cells) table.cells.back().push_back(cell(one.outcome));
  }
  return table;
}

std::string line_of(const std::string& label, const std::vector<std::string>& fields,
                    const std::vector<size_t>& widths, size_t label_width) {
  std::string line = fmt::format("{:<{}}", label, label_width);
  for (size_t i = 0; i < fields.size(); ++i)
    line += fmt::format("{:{}}{:<{}}", "", kGap, fields[i], widths[i] - kGap);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string panel(const Table& table, size_t first, size_t end) {
  std::vector<size_t> widths;
  size_t heading_lines = 0;
  for (size_t column = first; column < end; ++column) {
    widths.push_back(table.column_width(column));
    heading_lines = std::max(heading_lines, table.headings[column].size());
  }
  std::string text;
  for (size_t i = 0; i < heading_lines; ++i) {
    std::vector<std::string> fields;
    for (size_t column = first; column < end; ++column) {
      const std::vector<std::string>& lines = table.headings[column];
      fields.push_back(i < lines.size() ? lines[i] : "");
    }
    text += line_of("", fields, widths, table.label_width);
  }
  for (size_t row = 0; row < table.cells.size(); ++row) {
    const auto begin = table.cells[row].begin();
    const std::vector<std::string> fields(begin + static_cast<std::ptrdiff_t>(first),
                                          begin + static_cast<std::ptrdiff_t>(end));
    text += line_of(table.labels[row], fields, widths, table.label_width);
  }
  return text;
}

// What the codes in the cells stand for, as lines of this width.
std::string legend(const Matrix& matrix, size_t width) {
  std::map<std::string, std::string> words;
  for (const MatrixRow& row : matrix.rows) {
    for (const MatrixCell& cell : row.cells) words[cell_code(cell.outcome)] = cell_word(cell.outcome);
  }
  std::string text;
  size_t used = 0;
  for (const auto& [code, word] : words) {
    if (code == word) continue;
    const std::string entry = fmt::format("{} {}", code, word);
    if (used > 0 && used + kGap + entry.size() > width) {
      text += ",\n";
      used = 0;
    }
    if (used > 0) text += ", ";
    text += entry;
    used += entry.size() + (used == 0 ? 0 : kGap);
  }
  return text.empty() ? "" : text + "\n";
}

std::string markdown_cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

}  // namespace

std::string text_report(const Matrix& matrix, size_t width) {
  const Table words = table_of(matrix, width, cell_word);
  const bool fits = words.panel_end(0, width) == matrix.columns.size();
  const Table table = fits ? words : table_of(matrix, width, cell_code);
  std::string text;
  for (size_t first = 0; first < matrix.columns.size();) {
    const size_t end = table.panel_end(first, width);
    text += (first == 0 ? "" : "\n") + panel(table, first, end);
    first = end;
  }
  return text + "\n" + (fits ? "" : legend(matrix, width)) + best_releases(matrix);
}

std::string markdown_report(const Matrix& matrix) {
  std::string text = "| program |";
  std::string rule = "| --- |";
  for (const std::vector<Release>& releases : matrix.columns) {
    text += " " + fold(releases) + " |";
    rule += " --- |";
  }
  text += "\n" + rule + "\n";
  for (const MatrixRow& row : matrix.rows) {
    text += "| " + markdown_cell(row.label()) + " |";
    for (const MatrixCell& cell : row.cells) text += " " + cell_word(cell.outcome) + " |";
    text += "\n";
  }
  return text + "\n" + best_releases(matrix);
}

}  // namespace zero3::sim
